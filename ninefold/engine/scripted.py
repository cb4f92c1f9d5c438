"""An engine that plays given answers: for demonstrators and tests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ninefold.core.errors import EngineError
from ninefold.core.protocols import Completion, Request, WeightHandle
from ninefold.core.types import FinishReason, IntArray

Respond = Callable[[Request], IntArray]
"""The ids that a request samples, its stop id included."""


class ScriptedEngine:
    """`core.protocols.Engine` whose tokens come from a function, with log-probability 0; one request finishes a poll."""

    def __init__(self, respond: Respond, *, version: int = 0) -> None:
        self._respond = respond
        self._version = version
        self._queue: deque[Request] = deque()
        self._cancelled: set[str] = set()

    @property
    def policy_version(self) -> int:
        return self._version

    @property
    def in_flight(self) -> int:
        return len(self._queue)

    def submit(self, requests: Sequence[Request]) -> None:
        self._queue.extend(requests)

    def poll(self) -> list[Completion]:
        if not self._queue:
            return []
        request = self._queue.popleft()
        if request.id in self._cancelled:
            self._cancelled.discard(request.id)
            return [self._completion(request, np.zeros(0, np.int32), "cancelled")]
        ids = np.asarray(self._respond(request), np.int32)
        whole = len(ids) <= request.max_new
        return [self._completion(request, ids[: request.max_new], "stop" if whole else "length")]

    def pause(self) -> list[Completion]:
        paused = [self._completion(request, np.zeros(0, np.int32), "paused") for request in self._queue]
        self._queue.clear()
        return paused

    def cancel(self, requests: Iterable[str]) -> None:
        self._cancelled.update({request.id for request in self._queue}.intersection(requests))

    def release(self, session: str) -> None:
        pass

    def load(self, weights: WeightHandle, version: int) -> None:
        if self._queue:
            raise EngineError(f"cannot load weights with {len(self._queue)} requests in flight; pause first")
        self._version = version

    def _completion(self, request: Request, ids: IntArray, finish: FinishReason) -> Completion:
        logprobs = np.zeros(len(ids), np.float32)
        return Completion(request=request.id, ids=ids, logprobs=logprobs, policy_version=self._version, finish=finish)

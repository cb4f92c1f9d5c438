"""A stream of prompts over two real families, and an engine that ticks token by token."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ninefold.agent.env import families
from ninefold.core.protocols import Completion, Request, WeightHandle
from ninefold.core.types import Effort, FinishReason, IntArray, Result, Task

FAMILIES = {name: families()[name] for name in ("arithmetic", "assistant")}


def verify(task: Task, final: object) -> Result:
    return FAMILIES[task.family].verify(task, final)  # pyright: ignore[reportArgumentType]


def prompt(number: int) -> tuple[Task, Effort]:
    """A stream of prompts over both families and all efforts."""
    name = ("arithmetic", "assistant")[number % 2]
    return FAMILIES[name].generate("train", number // 2 % 2, number), ("low", "high", "max")[number % 3]


class TickingEngine:
    """Every request in flight gets a token a tick; a poll ticks until one is finished. Log-probs follow from the ids."""

    def __init__(self, respond: Callable[[Request], IntArray]) -> None:
        self.policy_version = 0
        self.most = 0
        self.released: list[str] = []
        self._respond = respond
        self._flying: dict[str, tuple[Request, IntArray, int]] = {}
        self._cancelled: list[Completion] = []

    @property
    def in_flight(self) -> int:
        return len(self._flying) + len(self._cancelled)

    def submit(self, requests: Sequence[Request]) -> None:
        for request in requests:
            assert request.id not in self._flying
            self._flying[request.id] = request, np.asarray(self._respond(request), np.int32), 0
        self.most = max(self.most, self.in_flight)

    def poll(self) -> list[Completion]:
        done, self._cancelled = self._cancelled, []
        while self._flying and not done:
            self._flying = {id: (request, ids, n + 1) for id, (request, ids, n) in self._flying.items()}
            done = [self._complete(*item) for item in self._flying.values() if item[2] >= min(len(item[1]), item[0].max_new)]
            for completion in done:
                del self._flying[completion.request]
        return done

    def pause(self) -> list[Completion]:
        paused = [self._complete(*item, cut="paused") for item in self._flying.values()]
        self._flying = {}
        return paused

    def cancel(self, requests: Iterable[str]) -> None:
        mine = [id for id in requests if id in self._flying]
        self._cancelled += [self._complete(*self._flying.pop(id), cut="cancelled") for id in mine]

    def release(self, session: str) -> None:
        self.released.append(session)

    def load(self, weights: WeightHandle, version: int) -> None:
        assert not self._flying
        self.policy_version = version

    def _complete(self, request: Request, ids: IntArray, n: int, *, cut: FinishReason | None = None) -> Completion:
        finish = cut or ("stop" if n >= len(ids) else "length")
        positions = np.arange(len(request.ids), len(request.ids) + n)
        logprobs = -((ids[:n] * 31 + positions * 17) % 97 / 97).astype(np.float32)
        return Completion(request=request.id, ids=ids[:n], logprobs=logprobs, policy_version=self.policy_version, finish=finish)

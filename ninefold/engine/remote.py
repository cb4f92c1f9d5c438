"""An engine that asks an OpenAI-compatible server for whole messages, where rows are spelled (`chat.spelled`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

import httpx
import numpy as np

from ninefold.chat.messages import call_id
from ninefold.chat.spelled import spell, unspell
from ninefold.core.errors import EngineError, NinefoldError, boundary
from ninefold.core.protocols import Completion, Request, WeightHandle
from ninefold.core.types import FinishReason, IntArray

PATIENCE = 600.0
"""Seconds of one answer."""
_LOOK_S = 0.1
"""Between looks at whether a request is still wanted."""
_KEPT = ("role", "content", "reasoning_content", "tool_calls")


class RemoteEngine:
    """`core.protocols.Engine` whose tokens have no log-probabilities: it plays, and nothing is learned from it as a policy.

    A message cannot be stopped halfway: what is in flight at a pause is asked again when its episode goes on.
    """

    def __init__(self, url: str, model: str, *, key: str = "", width: int = 16, stated: bool = False) -> None:
        """`url` ends before /chat/completions; `width` requests are under way at once; `stated` sends efforts along."""
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._client = httpx.Client(base_url=url, headers=headers, timeout=httpx.Timeout(PATIENCE, connect=10.0))
        self._model, self._stated = model, stated
        self._threads = ThreadPoolExecutor(width)
        self._flying: dict[Future[tuple[IntArray, FinishReason]], Request] = {}
        self._cancelled: set[str] = set()

    @property
    def policy_version(self) -> int:
        return 0

    @property
    def in_flight(self) -> int:
        return len(self._flying)

    def submit(self, requests: Sequence[Request]) -> None:
        self._flying |= {self._threads.submit(self._answer, request): request for request in requests}

    def poll(self) -> list[Completion]:
        while self._flying:
            done, _ = wait(self._flying, _LOOK_S, return_when=FIRST_COMPLETED)
            finished = [_completion(self._flying.pop(future), *future.result()) for future in done]
            unwanted = [future for future, request in self._flying.items() if request.id in self._cancelled]
            finished += [_completion(self._flying.pop(future), _NOTHING, "cancelled") for future in unwanted]
            if finished:
                self._cancelled.clear()
                return finished
        return []

    def pause(self) -> list[Completion]:
        whole = {future for future in self._flying if future.done()}
        flying, self._flying = self._flying, {}
        for future in flying.keys() - whole:
            future.cancel()
        return [
            _completion(request, *future.result()) if future in whole else _completion(request, _NOTHING, "paused")
            for future, request in flying.items()
        ]

    def cancel(self, requests: Iterable[str]) -> None:
        self._cancelled |= {*requests}

    def release(self, session: str) -> None:
        pass

    def load(self, weights: WeightHandle, version: int) -> None:
        raise EngineError("a remote model's weights cannot be changed from here")

    def close(self) -> None:
        """Leave the server alone; requests under way are dropped."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    def _answer(self, request: Request) -> tuple[IntArray, FinishReason]:
        problems: list[NinefoldError] = []
        with boundary(EngineError, "the model's server", catch=problems.append):
            options, *messages = unspell(request.ids)
            choice = self._ask(options, messages, request)
            ids = spell({name: choice["message"][name] for name in _KEPT if choice["message"].get(name) is not None})
            cut = len(ids) > request.max_new or choice.get("finish_reason") == "length"
            return ids[: request.max_new], "length" if cut else "stop"
        return _NOTHING, "error"

    def _ask(self, options: Mapping[str, Any], messages: Sequence[Mapping[str, Any]], request: Request) -> Mapping[str, Any]:
        """The one choice of the answer. Raises httpx.HTTPError."""
        body: dict[str, Any] = {"model": self._model, "messages": _paired(messages), "temperature": request.temperature}
        body |= {"tools": options["tools"]} if options["tools"] else {}
        body |= {"reasoning_effort": options["effort"]} if self._stated else {}
        answer = self._client.post("/chat/completions", json=body)
        answer.raise_for_status()
        return answer.json()["choices"][0]


_NOTHING: IntArray = np.zeros(0, np.int32)


def _completion(request: Request, ids: IntArray, finish: FinishReason) -> Completion:
    return Completion(request=request.id, ids=ids, logprobs=np.zeros(len(ids), np.float32), policy_version=0, finish=finish)


def _paired(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Results under the ids that the server gave the calls that they answer, in place of the calls' numbers."""
    paired: list[Mapping[str, Any]] = []
    ids: dict[str, str] = {}
    for message in messages:
        if message["role"] == "assistant":
            ids = {call_id(number): call["id"] for number, call in enumerate(message.get("tool_calls") or (), 1)}
        elif message["role"] == "tool":
            message = {**message, "tool_call_id": ids.get(message["tool_call_id"], message["tool_call_id"])}
        paired.append(message)
    return paired

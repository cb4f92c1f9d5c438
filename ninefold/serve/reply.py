"""One answer as it grows: sampled tokens in, OpenAI's deltas out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ninefold.chat.parse import CallClosed, TextDelta
from ninefold.chat.xtml import Xtml
from ninefold.core.types import Call
from ninefold.serve.generation import Slice

Finish = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """What one slice adds to the answer; at most one of the first three is there."""

    reasoning: str = ""
    content: str = ""
    call: tuple[int, Call] | None = None
    """(index from 0, call), whole."""
    logprobs: tuple[dict[str, Any], ...] = ()
    """Of the content's tokens, as OpenAI states them."""


class StopText:
    """Cuts text at the sequence that is complete first, however it arrives; holds back what may be the beginning of one."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.hit = False

    def push(self, text: str) -> str:
        """The part of all text so far that can be shown now and was not yet."""
        if self.hit:
            return ""
        self._held += text
        found = [(place + len(stop), place) for stop in self._stops if (place := self._held.find(stop)) >= 0]
        if found:
            self.hit = True
            return self._held[: min(found)[1]]
        shown = self._held[: len(self._held) - self._overlap()]
        self._held = self._held[len(shown) :]
        return shown

    def flush(self) -> str:
        """What is still held back, at the end."""
        return "" if self.hit else self._held

    def _overlap(self) -> int:
        """Length of the longest end of the held text that begins a stop sequence."""
        longest = max(map(len, self._stops), default=0)
        for size in range(min(len(self._held), longest - 1), 0, -1):
            if any(stop.startswith(self._held[-size:]) for stop in self._stops):
                return size
        return 0


class Reply:
    """One choice of a completion."""

    def __init__(self, chat: Xtml, *, stops: Sequence[str] = (), logprobs: bool = False, calls: bool = True) -> None:
        """`calls` False passes over tool calls: nobody declared a tool."""
        self._chat = chat
        self._parser = chat.parser()
        self._stop = StopText(stops)
        self._logprobs = logprobs
        self._taken = calls
        self._calls = 0
        self.tokens = 0
        """Sampled so far."""
        self.reasoning_tokens = 0
        """Of them, in the think channel; known at the end."""
        self.finish: Finish | None = None
        """None while it goes on."""

    def take(self, part: Slice) -> list[Delta]:
        """What the slice adds."""
        deltas: list[Delta] = []
        for token, logprob in zip(part.ids.tolist(), part.logprobs.tolist()):
            self.tokens += 1
            for event in self._parser.feed([token]):
                deltas += self._delta(event, token, logprob)
            if self._stop.hit:
                return deltas + self._close("stop")
        if part.finish is not None:
            deltas += self._close("length" if part.finish == "length" else "stop")
        return deltas

    def _delta(self, event: TextDelta | CallClosed, token: int, logprob: float) -> list[Delta]:
        if isinstance(event, CallClosed):
            if event.call.error is not None or not self._taken:
                return []
            self._calls += 1
            return [Delta(call=(self._calls - 1, event.call))]
        if event.channel == "think":
            return [Delta(reasoning=event.text)]
        shown = self._stop.push(event.text)
        stated = (self._stated(token, logprob),) if self._logprobs and not self._stop.hit else ()
        return [Delta(content=shown, logprobs=stated)] if shown or stated else []

    def _close(self, reason: Finish) -> list[Delta]:
        message = self._parser.finish()
        self.reasoning_tokens = message.think_tokens
        self.finish = "tool_calls" if self._calls and reason == "stop" else reason
        rest = self._stop.flush()
        return [Delta(content=rest)] if rest else []

    def _stated(self, token: int, logprob: float) -> dict[str, Any]:
        data = self._chat.tokenizer.token_bytes(token)
        return {"token": data.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(data), "top_logprobs": []}

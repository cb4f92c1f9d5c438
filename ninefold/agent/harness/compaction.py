"""Compaction: a row that has grown too long is continued by a summary, or with old results cut down.

Whole exchanges are kept or dropped, so a call is never parted from its result. The summary is the policy's own message at
the end of the old row, learned from there; in the new row it stands as a user's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ninefold.agent.harness.context import CLEARED, Exchange
from ninefold.core.protocols import Message

ELISION = "\n… ({left_out} tokens of this message are left out) …\n"


def tokens_of(text: str) -> int:
    """[ours] The estimate of budgets that count text: four characters a token."""
    return -(-len(text) // 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """Old tool results are cut down before anything is summarised (OpenClaw; opencode without the first step)."""

    keep: int = 3
    """Exchanges at the end that stay as they are."""
    soft_ratio: float = 0.3
    """Share of the window above which long results are cut to head and tail."""
    hard_ratio: float = 0.5
    """Share above which they are emptied."""
    long: int = 4_000
    """Characters above which a result is long."""
    head: int = 1_500
    tail: int = 1_500
    least: int = 50_000
    """Characters that there must be to cut before anything is emptied."""

    def prune(self, exchanges: Sequence[Exchange], share: float) -> list[Exchange]:
        """The exchanges with what may go gone, at `share` of the window; equal to them where nothing can."""
        old, recent = list(exchanges[: -self.keep]), list(exchanges[-self.keep :])
        if share >= self.soft_ratio:
            old = [replace(e, results=tuple(map(self._trimmed, e.results))) for e in old]
        if share >= self.hard_ratio and sum(len(result) for e in old for result in e.results) >= self.least:
            old = [replace(e, results=(CLEARED,) * len(e.results), pictures=()) for e in old]
        return old + recent

    def _trimmed(self, result: str) -> str:
        if len(result) <= self.long:
            return result
        left_out = len(result) - self.head - self.tail
        return f"{result[: self.head]}\n… ({left_out} characters left out) …\n{result[len(result) - self.tail :]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """When history is compacted, how the summary is asked for, and what survives it."""

    kind: Literal["none", "summarise"] = "summarise"
    ratio: float = 1.0
    """Share of the window above which a row is closed."""
    reserve: int = 0
    """Tokens of the window that stay free. [ours] Not more than half of it, so that small windows work."""
    ask: str = "Summarise the work so far: what is asked, what was done and found, what is left to do."
    """What the policy is told when the summary is wanted."""
    prefix: str = "Summary of the work so far:\n"
    suffix: str = ""
    """Around the summary."""
    summary_tokens: int = 0
    """Most of a summary that survives; 0 means all."""
    user_tokens: int | None = None
    """Most of the users' messages that survives, newest first; None means all."""
    user_head: int = 0
    """Of a message that is cut, the tokens kept from its beginning; the rest is kept from its end."""
    keep: int = 0
    """Exchanges at the end that survive at most."""
    keep_tokens: int | None = None
    """Most of those exchanges in tokens; None means any number."""
    keep_share: float = 1.0
    """Most of them as a share of the window."""
    todo: str = ""
    """Name of the tool whose last list is put behind the summary; empty: none is."""
    pruning: Pruning | None = field(default=None)

    def __post_init__(self) -> None:
        if not 0 < self.ratio <= 1 or min(self.reserve, self.keep, self.user_head, self.summary_tokens) < 0:
            raise ValueError(f"compaction: 0 < ratio ≤ 1 and no negative sizes, got {self}")

    def due(self, tokens: int, limit: int) -> bool:
        """Whether a row of `tokens` calls for compaction, or for pruning."""
        if self.kind == "none":
            return False
        return self._full(tokens, limit) or (self.pruning is not None and tokens > self.pruning.soft_ratio * limit)

    def asks(self, tokens: int, limit: int) -> str:
        """What the policy is told where a summary is wanted; empty where none is."""
        return self.ask if self.kind == "summarise" and self._full(tokens, limit) else ""

    def shorten(self, exchanges: Sequence[Exchange], share: float = 1.0) -> list[Exchange]:
        """The exchanges pruned, at `share` of the window; equal to them where nothing can go."""
        return self.pruning.prune(exchanges, share) if self.pruning else list(exchanges)

    def _full(self, tokens: int, limit: int) -> bool:
        return tokens > self._room(limit)

    def _room(self, limit: int) -> float:
        """Tokens that make a window full."""
        return min(self.ratio * limit, limit - min(self.reserve, limit // 2))

    def kept(self, exchanges: Sequence[Exchange], limit: int) -> list[Exchange]:
        """The exchanges at the end that survive, whole, in a window of `limit` tokens.

        [ours] At most half of what makes the window full, so that a new row is not full at once.
        """
        kept: list[Exchange] = []
        room = min(self.keep_share * limit, self._room(limit) / 2, limit if self.keep_tokens is None else self.keep_tokens)
        for exchange in reversed(exchanges[len(exchanges) - min(self.keep, len(exchanges)) :]):
            room -= sum(len(segment.ids) for segment in exchange.sampled) + sum(map(tokens_of, exchange.results))
            if room < 0:
                break
            kept.insert(0, exchange)
        return kept

    def last_todo(self, exchanges: Sequence[Exchange]) -> str:
        """The last result of the tool `todo`; empty where there is none."""
        results = [text for e in exchanges for call, text in zip(e.calls, e.results) if call.tool == self.todo]
        return results[-1] if results else ""

    def opening(self, messages: Sequence[Message], summary: str, todo: str = "") -> list[Message]:
        """What the new row begins with: the opening of the first, its users' words within budget, and the summary."""
        text = summary[: 4 * self.summary_tokens] if self.summary_tokens else summary
        behind = f"\n\n{todo}" if todo else ""
        return [*fit_users(messages, self.user_tokens, self.user_head), _user(f"{self.prefix}{text}{self.suffix}{behind}")]


def fit_users(
    messages: Sequence[Message], budget: int | None, head: int = 0, count: Callable[[str], int] = tokens_of
) -> list[Message]:
    """The messages with the users' words cut to `budget` tokens: the newest stay, the one on the edge keeps its ends.

    A message that holds pictures stays whole, and its text counts. Other roles are not touched.
    """
    if budget is None:
        return list(messages)
    fitted: list[Message] = []
    room = budget
    for message in reversed(messages):
        if message["role"] != "user" or not isinstance(message["content"], str):
            fitted.append(message)
            continue
        text, size = message["content"], count(message["content"])
        if size <= room:
            fitted.append(message)
            room -= size
            continue
        if room > 0:
            fitted.append({**message, "content": _ends(text, 4 * min(head, room), 4 * max(0, room - head), size - room)})
        room = -1
    return fitted[::-1]


def _ends(text: str, head: int, tail: int, left_out: int) -> str:
    return text[:head] + ELISION.format(left_out=left_out) + (text[len(text) - tail :] if tail else "")


def _user(text: str) -> Message:
    return {"role": "user", "content": text}

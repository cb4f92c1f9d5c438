"""Context policies: what a row that has grown too long is continued by.

A rewritten history opens a new row. What the policy said there stands as context: it was learned from in the row where it
was sampled, and its ids are carried over, never rendered again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ninefold.core.picture import Picture
from ninefold.core.types import Call, Segment

ContextKind = Literal["none", "truncate", "clear"]

CLEARED = "cleared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One assistant message and what its calls returned."""

    sampled: tuple[Segment, ...]
    """The message as it was sampled."""
    calls: tuple[Call, ...]
    """Its calls, in the names of the wire."""
    results: tuple[str, ...]
    """Their results as the policy saw them, in call order."""
    pictures: tuple[tuple[Picture, ...], ...] = ()
    """What each result showed before its text; empty where none showed any."""
    notes: tuple[str, ...] = ()
    """What the harness said behind them, as a user."""

    @property
    def messages(self) -> int:
        """How many messages of a conversation it is."""
        return 1 + len(self.results) + len(self.notes)

    def as_context(self, message: int) -> tuple[Segment, ...]:
        """The message's ids as rendered context, standing at place `message` of a new row."""
        return tuple(Segment(ids=s.ids, source="rendered", message=message, role=s.role, images=s.images) for s in self.sampled)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextPolicy:
    """When and how history is shortened."""

    kind: ContextKind = "none"
    """none: never; truncate: the oldest exchanges go; clear: their tool results are emptied, the calls stay."""
    threshold: float = 0.75
    """Share of the context limit above which a row is closed."""
    keep: int = 2
    """Exchanges at the end that stay as they are."""

    def __post_init__(self) -> None:
        if self.keep < 1 or not 0 < self.threshold <= 1:
            raise ValueError(f"context policy: keep ≥ 1 and 0 < threshold ≤ 1, got {self.keep} and {self.threshold}")

    def due(self, tokens: int, limit: int) -> bool:
        """Whether a row of `tokens` calls for shortening."""
        return self.kind != "none" and tokens > self.threshold * limit

    def asks(self, tokens: int, limit: int) -> str:
        """What the policy is told where a summary is wanted, which it never is."""
        return ""

    def shorten(self, exchanges: Sequence[Exchange], share: float = 1.0) -> list[Exchange]:
        """The history that a new row starts from, at `share` of the limit; equal to `exchanges` where nothing can go."""
        old, recent = list(exchanges[: -self.keep]), list(exchanges[-self.keep :])
        if self.kind == "truncate":
            return recent
        return [replace(exchange, results=(CLEARED,) * len(exchange.results), pictures=()) for exchange in old] + recent

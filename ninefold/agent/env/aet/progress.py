"""What an episode is measured by besides its score: verifier-assessed completion against normalised tool calls (report)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ninefold.agent.env.aet.ledger import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One submission on the curve."""

    calls: float
    """Share of the allowed tool calls made up to it."""
    completion: float
    """Share of hidden scenarios that it predicts."""


def curve(ledger: Sequence[Entry], allowed: int, completion: Callable[[str], float]) -> tuple[Point, ...]:
    """A point a submission; `completion` is the hidden verifier's, asked after the episode."""
    return tuple(Point(calls=entry.call / allowed, completion=completion(entry.answer)) for entry in ledger)


def area(points: Sequence[Point]) -> float:
    """Mean completion over the calls that were allowed: 1 would be everything before the first call, 0 nothing ever.

    Each submission stands until the next one, the last to the end.
    """
    ends = [point.calls for point in points[1:]] + [1.0]
    return sum(point.completion * (end - point.calls) for point, end in zip(points, ends))

"""The ledger of submissions: it only grows, and what is wasted costs.

A submission is wasted that predicts no more of the visible scenarios than the best before it. What is scored is the last one:
completion is the share of hidden scenarios that it predicts, and below `FLOOR` it counts for nothing, so that neither chance
nor a copy of what is visible is rewarded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PENALTY = 0.1
"""Taken off the score for each wasted submission. [ours]"""
FLOOR = 0.7
"""Least completion that is worth anything. [ours]"""
GAP = 0.3
"""Completion on visible scenarios above that on hidden ones that is called out: the agent fitted what it was shown. [ours]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One submission."""

    call: int
    """Tool calls made up to it, itself included."""
    answer: str
    right: int
    """Visible scenarios that it predicts."""
    scenarios: int
    """Visible scenarios."""


def entries(final: Mapping[str, Any]) -> tuple[Entry, ...]:
    """The ledger of a final state."""
    return tuple(Entry(**entry) for entry in final.get("ledger", ()))


def wasted(ledger: Sequence[Entry]) -> int:
    """Number of wasted submissions."""
    best, count = 0, 0
    for entry in ledger:
        count += entry.right <= best
        best = max(best, entry.right)
    return count


def score(completion: float, ledger: Sequence[Entry]) -> float:
    """What a ledger is worth whose last submission has that completion, in [0, 1]."""
    return 0.0 if completion < FLOOR else round(max(0.0, completion - PENALTY * wasted(ledger)), 6)


def alarm(completion: float, ledger: Sequence[Entry]) -> str:
    """The gap between public and hidden completion of the last submission, where it calls for attention; else empty."""
    public = ledger[-1].right / ledger[-1].scenarios
    return f"gap alarm: {public:.2f} of the visible, {completion:.2f} of the hidden" if public - completion >= GAP else ""

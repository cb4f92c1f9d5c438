"""Families that need a component which this machine may not have."""

from __future__ import annotations

from collections.abc import Iterable

from ninefold.core.protocols import Family, Lacking


def lacking(family: Family, level: int = 0) -> str | None:
    """What this machine lacks for tasks of the level, and how to get it; None where they can be played."""
    return family.lacks(level) if isinstance(family, Lacking) else None


def skipped(family: Family, levels: Iterable[int] | None = None) -> dict[int, str]:
    """Level → what this machine lacks for it, of `levels`, or of all; without those that can be played."""
    reasons = {level: lacking(family, level) for level in (range(family.levels) if levels is None else levels)}
    return {level: reason for level, reason in reasons.items() if reason is not None}

"""Gradient norms that stand out of those before them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

TIMES = 4.0
WINDOW = 50
EARLIEST = 10
"""A norm has at least so many before it, or nothing is said of it."""


def spikes(norms: Sequence[float]) -> list[int]:
    """Places of the norms above `TIMES` the median of the `WINDOW` before them. [ours: the report defines no spike]"""
    return [n for n in range(EARLIEST, len(norms)) if norms[n] > TIMES * median(norms[max(0, n - WINDOW) : n])]

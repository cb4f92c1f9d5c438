"""Who does what."""

from .spans import overlap, union


def share(loads: list[int], count: int) -> list[list[int]]:
    """Loads dealt out to so many people, the largest first, each to whoever has least; of equals to the first."""
    piles: list[list[int]] = [[] for _ in range(count)]
    for load in sorted(loads, reverse=True):
        sums = [sum(pile) for pile in piles]
        piles[sums.index(min(sums))].append(load)
    return piles


def clashes(spans: list[list[int]]) -> list[list[int]]:
    """Pairs of places in a list of spans that overlap, the smaller place first, in order."""
    found: list[list[int]] = []
    for i, first in enumerate(spans):
        for j in range(i + 1, len(spans)):
            if overlap(first, spans[j]) > 0:
                found.append([i, j])
    return found


def together(calendars: list[list[list[int]]], hours: int, until: int) -> int:
    """The first hour at which everybody is free for so many hours, all of them before `until`; -1 where there is none."""
    busy = union([span for calendar in calendars for span in calendar])
    for start in range(until - hours + 1):
        if all(overlap([start, start + hours], span) == 0 for span in busy):
            return start
    return -1

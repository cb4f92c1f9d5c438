"""Spans of time: start and end; the end belongs to what follows."""


def overlap(first: list[int], second: list[int]) -> int:
    """Hours that two spans share."""
    return max(0, min(first[1], second[1]) - max(first[0], second[0]))


def union(spans: list[list[int]]) -> list[list[int]]:
    """The same hours as few spans in order; spans that touch become one, empty ones are dropped."""
    merged: list[list[int]] = []
    for start, end in sorted(spans):
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def gaps(spans: list[list[int]], start: int, end: int) -> list[list[int]]:
    """What no span covers between start and end, in order."""
    found: list[list[int]] = []
    last = start
    for first, behind in union(spans):
        if first > last:
            found.append([last, min(first, end)])
        last = max(last, behind)
    if last < end:
        found.append([last, end])
    return [gap for gap in found if gap[0] < gap[1]]


def hours(spans: list[list[int]]) -> int:
    """Hours that are covered by one span at least."""
    return sum(end - start for start, end in union(spans))

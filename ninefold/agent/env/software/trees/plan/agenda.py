"""A day of one person."""

from .clock import office, tell
from .spans import gaps, hours, union


def free(day: int, busy: list[list[int]]) -> list[list[int]]:
    """Office hours of a day in which nothing is planned."""
    start, end = office(day)
    return gaps(busy, start, end)


def load(day: int, busy: list[list[int]]) -> int:
    """Percent of the office hours of a day that are planned, rounded down."""
    start, end = office(day)
    return 100 * (end - start - hours(free(day, busy))) // (end - start)


def lines(busy: list[list[int]]) -> list[str]:
    """What is planned, as few spans as do, a line like "day 1, 9:00 for 3 h" each."""
    return [f"{tell(start)} for {end - start} h" for start, end in union(busy)]

"""Hours from the first day on; hour 24 is midnight after day 0."""

from .settings import HOURS, OPEN
from .spans import overlap


def tell(hour: int) -> str:
    """Day and hour of it: 33 is "day 1, 9:00"."""
    return f"day {hour // 24}, {hour % 24}:00"


def office(day: int) -> list[int]:
    """The span in which work is done on a day."""
    return [24 * day + OPEN, 24 * day + OPEN + HOURS]


def worked(span: list[int]) -> int:
    """Hours of a span that lie in office hours."""
    first, last = span[0] // 24, span[1] // 24
    return sum(overlap(span, office(day)) for day in range(first, last + 1))

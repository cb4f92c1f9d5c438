"""Days are whole numbers; day 0 is a Monday."""

NAMES = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]


def name(day: int) -> str:
    """The weekday of a day, in three letters."""
    return NAMES[day % 7]


def working(day: int, closed: list[int]) -> bool:
    """Whether it is none of Saturday, Sunday and the closed days."""
    return day % 7 < 5 and day not in closed


def after(day: int, count: int, closed: list[int]) -> int:
    """The working day that comes `count` working days after a day."""
    left = count
    for later in range(day + 1, day + 7 * count + len(closed) + 8):
        if working(later, closed):
            left -= 1
            if left <= 0:
                return later
    return day

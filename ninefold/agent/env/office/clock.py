"""Time in the office: whole minutes since the midnight before day 1, written `day 2 10:30`."""

from __future__ import annotations

import re

DAY = 24 * 60
OPENS, CLOSES = 9 * 60, 18 * 60
"""Minutes of a day at which work begins, and at which the last day is over."""

_TIME = re.compile(r"day (\d{1,3}) (\d{1,2}):(\d\d)")


def moment(day: int, hour: int, minute: int = 0) -> int:
    """The minute of a day, 1 the first, and a time of it."""
    return (day - 1) * DAY + hour * 60 + minute


def told(at: int) -> str:
    """As people write it."""
    return f"day {at // DAY + 1} {hours(at)}"


def hours(at: int) -> str:
    """The time of the day alone."""
    return f"{at % DAY // 60:02}:{at % 60:02}"


def day_of(at: int) -> int:
    """1 is the first."""
    return at // DAY + 1


def end_of_day(at: int) -> int:
    """The last minute of the day."""
    return day_of(at) * DAY - 1


def parsed(text: str) -> int | None:
    """The inverse of `told`; None where the text is no time."""
    found = _TIME.fullmatch(text.strip().casefold())
    if found is None:
        return None
    day, hour, minute = map(int, found.groups())
    return moment(day, hour, minute) if day >= 1 and hour < 24 and minute < 60 else None

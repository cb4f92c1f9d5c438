"""Rules of the office on a page: a number for each key, which may change from a time on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ninefold.agent.env.office.clock import parsed, told

_LINE = re.compile(r"(?:\S+: )?([a-z][a-z ]*): (\d+)(?: until (day \d+ \d\d:\d\d), then (\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A number, and what it becomes."""

    value: int
    changes: int | None = None
    """The first minute of the new value."""
    later: int = 0

    def at(self, moment: int) -> int:
        """The number that holds for a request that arrives at that minute."""
        return self.value if self.changes is None or moment < self.changes else self.later

    def line(self, key: str) -> str:
        """As it stands on the page."""
        return f"{key}: {self.value}" + (f" until {told(self.changes)}, then {self.later}" if self.changes is not None else "")


def read_rules(page: str) -> Mapping[str, Rule]:
    """Every rule on a page as `note_read` shows it."""
    found = (match for line in page.splitlines() if (match := _LINE.fullmatch(line)))
    return {
        key: Rule(value=int(value), changes=parsed(changes) if changes else None, later=int(later or 0))
        for key, value, changes, later in (match.groups() for match in found)
    }

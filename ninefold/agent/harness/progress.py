"""How far an episode has come, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ninefold.core.packed import turn_of, turn_record
from ninefold.core.types import StopReason, Turn


@dataclass(slots=True, kw_only=True)
class Progress:
    """The counters of an episode, and what it said."""

    new_tokens: int = 0
    think_tokens: int = 0
    """Of finished messages."""
    resumes: int = 0
    response: str | None = None
    """Of the last finished message; what the verifier sees."""
    stop: StopReason | None = None
    trouble: str = ""
    """Why nobody can judge the episode; empty where all is well."""
    malformed: str = ""
    """The first irregularity of a whole message, empty where the wire format was kept."""
    asked_again: bool = False
    """Whether a sub-agent was told to report in full."""
    refused: int = 0
    """Messages of bad form in a row, up to the last one."""
    turns: list[Turn] = field(default_factory=list[Turn])

    def record(self) -> dict[str, Any]:
        """As JSON."""
        values = {name: getattr(self, name) for name in Progress.__slots__}
        return values | {"turns": [turn_record(turn) for turn in self.turns]}

    @staticmethod
    def of(record: Mapping[str, Any]) -> Progress:
        """The inverse of `record`."""
        return Progress(**{**record, "turns": [turn_of(turn) for turn in record["turns"]]})

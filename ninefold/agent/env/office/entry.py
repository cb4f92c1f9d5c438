"""What the assistant left behind in the applications, as rules see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["mail", "label", "chat", "reaction", "block", "card", "column", "submission", "meeting", "answer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that stands there because the assistant wrote it."""

    kind: Kind
    place: str
    """Thread, channel, block or page, card, board, or a meeting's title; `new` is mail that begins a thread."""
    to: str = ""
    """Recipients of new or forwarded mail, the post that is answered, a board's column, who meets."""
    line: str = ""
    """First line of the text, as `first_line` makes it; label, emoji, answer, time of a meeting."""

    @property
    def free(self) -> bool:
        """Whether nobody minds it: questions may be put to anyone."""
        return self.kind in ("mail", "chat") and self.line.endswith("?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """An entry and when it came to stand there as it does."""

    entry: Entry
    at: int
    """In minutes."""

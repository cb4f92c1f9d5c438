"""Who works in the office, and when: what every application's operations are given."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ninefold.agent.env.office.clock import parsed
from ninefold.agent.harness.executor.operations import Refused

ME = "me"
"""The assistant, whose mailbox and chat these are."""
SHOWN = 20
"""Lines of one page of a listing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Somebody at work at a moment: colleagues act through the same operations as the assistant."""

    sql: sqlite3.Connection
    who: str
    now: int
    """In minutes."""
    made: str = ""
    """Id of what the operation makes; empty: the next of the assistant's own."""

    def rows(self, query: str, *values: object) -> list[Any]:
        return self.sql.execute(query, values).fetchall()

    def row(self, query: str, *values: object) -> Any:
        """The first row, or None."""
        return self.sql.execute(query, values).fetchone()

    def write(self, query: str, *values: object) -> None:
        self.sql.execute(query, values)

    def new_id(self, prefix: str) -> str:
        """For what the operation makes."""
        if self.made:
            return self.made
        self.write("UPDATE clock SET made = made + 1")
        return f"{prefix}-{self.row('SELECT made FROM clock')[0]}"

    def person(self, name: str) -> str:
        """The name as the directory has it. Raises Refused where nobody is called so."""
        row = self.row("SELECT name FROM person WHERE name = ? COLLATE NOCASE", name.strip())
        if row is None and name.strip() != ME:
            raise Refused(f"nobody is called {name.strip()[:60]}")
        return ME if row is None else row[0]

    def people(self, names: str) -> list[str]:
        """Names that commas separate, each once, sorted. Raises Refused."""
        found = sorted({self.person(name) for name in names.split(",") if name.strip()})
        if not found:
            raise Refused("name at least one person")
        return found


def time_of(text: str) -> int:
    """A time that was given. Raises Refused."""
    at = parsed(text)
    if at is None:
        raise Refused(f"{text[:40]!r} is no time; write e.g. day 2 10:30")
    return at


def text_of(text: str) -> str:
    """What was given, stripped. Raises Refused where that is nothing."""
    if not text.strip():
        raise Refused("the text is empty")
    return text.strip()


def first_line(text: str) -> str:
    """What a text says as far as rules look at it: its first line, without case, spare spaces and a full stop."""
    lines = text.strip().splitlines()
    return " ".join(lines[0].split()).rstrip(".").rstrip().casefold() if lines else ""


def words(query: str) -> tuple[list[str], int]:
    """(the words of a query and its "phrases in quotes", the page of the listing, 0 the first) as `page:2` names it."""
    page, found = 0, []
    for number, part in enumerate(query.casefold().split('"')):
        for word in [part] if number % 2 else part.split():
            if word.startswith("page:") and word[5:].isdecimal():
                page = max(0, min(int(word[5:][:6]) - 1, 100_000))
            elif word.strip():
                found.append(word.strip())
    return found, page


def listed(lines: list[str], page: int, nothing: str) -> str:
    """One page of lines, of which there is one too many where another page follows."""
    shown = lines[:SHOWN]
    more = [f"more: page:{page + 2}"] if len(lines) > SHOWN else []
    return "\n".join(shown + more) or nothing


def mentions(columns: str, found: list[str]) -> Iterator[tuple[str, str]]:
    """(condition, value) for each word that the columns' text must hold."""
    for word in found:
        yield f"instr(lower({columns}), ?)", word

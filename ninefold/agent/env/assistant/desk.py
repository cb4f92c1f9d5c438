"""The state of the office: an SQLite database in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Store = Literal["mail", "chat", "note"]
STORES: tuple[Store, ...] = get_args(Store)

ME = "me"
"""Author of what the assistant writes."""

_SHOWN = 8
"""Most lines that a search returns, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happens by itself when a day begins."""

    day: int
    """1 is the first."""
    kind: Literal["mail", "chat", "note", "staff"]
    who: str
    """Author of the mail or chat, title of the note, or the person whose boss changes."""
    text: str
    """What is written, or the name of the new boss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Something the assistant wrote."""

    store: Store
    day: int
    to: str
    """Recipient, or title of a note."""
    text: str


class Desk:
    """Mail, chat, notes, staff, the events still to come, and the clock."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._sql = connection

    @staticmethod
    def open(staff: Mapping[str, str], events: Iterable[Event]) -> Desk:
        """A desk on the morning of day 1; `staff` maps each person to the boss."""
        desk = Desk(sqlite3.connect(":memory:", isolation_level=None))
        sql = desk._sql
        for store in STORES:
            sql.execute(f"CREATE TABLE {store} (day INTEGER, author TEXT, address TEXT, text TEXT)")
        sql.execute("CREATE TABLE staff (name TEXT PRIMARY KEY, boss TEXT)")
        sql.execute("CREATE TABLE event (day INTEGER, kind TEXT, who TEXT, text TEXT)")
        sql.execute("CREATE TABLE clock (day INTEGER, lookups INTEGER)")
        sql.execute("INSERT INTO clock VALUES (0, 0)")
        sql.executemany("INSERT INTO staff VALUES (?, ?)", staff.items())
        sql.executemany("INSERT INTO event VALUES (?, ?, ?, ?)", [(e.day, e.kind, e.who, e.text) for e in events])
        desk.next_day()
        return desk

    @staticmethod
    def load(saved: bytes) -> Desk:
        """The desk that `dump` saved."""
        connection = sqlite3.connect(":memory:", isolation_level=None)
        connection.deserialize(saved)
        return Desk(connection)

    def dump(self) -> bytes:
        return self._sql.serialize()

    def close(self) -> None:
        self._sql.close()

    @property
    def day(self) -> int:
        return self._sql.execute("SELECT day FROM clock").fetchone()[0]

    def next_day(self) -> None:
        """Turn the clock and let the day's events happen, in their order."""
        self._sql.execute("UPDATE clock SET day = day + 1")
        day = self.day
        due = self._sql.execute("SELECT kind, who, text FROM event WHERE day = ? ORDER BY rowid", (day,)).fetchall()
        for kind, who, text in due:
            if kind == "staff":
                self._sql.execute("UPDATE staff SET boss = ? WHERE name = ?", (text, who))
            else:
                self._insert(kind, day, who, who if kind == "note" else ME, text)

    def count_lookup(self) -> int:
        """How many look-ups there were before this one."""
        self._sql.execute("UPDATE clock SET lookups = lookups + 1")
        return self._sql.execute("SELECT lookups - 1 FROM clock").fetchone()[0]

    def boss(self, name: str) -> str | None:
        """None where nobody has that name."""
        row = self._sql.execute("SELECT boss FROM staff WHERE name = ?", (name,)).fetchone()
        return None if row is None else row[0]

    def write(self, store: Store, to: str, text: str) -> None:
        """Send or file something today, as the assistant."""
        self._insert(store, self.day, ME, to, text)

    def search(self, store: Store, query: str) -> list[str]:
        """Lines of the store that contain the query, newest first: notes by title, the rest by day and author."""
        line = "address || ': ' || text" if store == "note" else "'day ' || day || ' ' || author || ': ' || text"
        matches = f"SELECT line FROM (SELECT rowid AS place, {line} AS line FROM {store}) WHERE instr(lower(line), lower(?))"
        rows = self._sql.execute(f"{matches} ORDER BY place DESC LIMIT {_SHOWN}", (query,))
        return [row[0] for row in rows]

    def written(self) -> list[Entry]:
        """Everything the assistant wrote, store by store, in order."""
        return [
            Entry(store=store, day=day, to=to, text=text)
            for store in STORES
            for day, to, text in self._sql.execute(
                f"SELECT day, address, text FROM {store} WHERE author = ? ORDER BY rowid", (ME,)
            )
        ]

    def _insert(self, store: Store, day: int, author: str, address: str, text: str) -> None:
        self._sql.execute(f"INSERT INTO {store} VALUES (?, ?, ?, ?)", (day, author, address, text))

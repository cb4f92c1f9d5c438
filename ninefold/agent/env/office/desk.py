"""The office: every application on one SQLite database, the events still to come, and the clock."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ninefold.agent.env.office import calendar, canvas, chat, mail, notes, people
from ninefold.agent.env.office.clock import CLOSES, DAY, OPENS, day_of, moment, told
from ninefold.agent.env.office.entry import Written
from ninefold.agent.env.office.seat import ME, Seat
from ninefold.agent.env.office.stream import Event
from ninefold.agent.harness.executor.operations import Refused

_SCHEMA = """
CREATE TABLE clock (now INTEGER, days INTEGER, made INTEGER);
CREATE TABLE person (name TEXT PRIMARY KEY, title TEXT, team TEXT, room TEXT, boss TEXT);
CREATE TABLE mail (id TEXT PRIMARY KEY, thread TEXT, at INTEGER, sender TEXT, recipients TEXT, subject TEXT, text TEXT,
                   way TEXT);
CREATE INDEX mail_of ON mail (thread);
CREATE TABLE label (thread TEXT, label TEXT, who TEXT, at INTEGER, PRIMARY KEY (thread, label));
CREATE TABLE page (id TEXT PRIMARY KEY, parent TEXT, title TEXT, who TEXT);
CREATE TABLE block (id TEXT PRIMARY KEY, page TEXT, text TEXT, who TEXT, at INTEGER);
CREATE INDEX block_of ON block (page);
CREATE TABLE channel (name TEXT PRIMARY KEY, seen INTEGER);
CREATE TABLE post (id TEXT PRIMARY KEY, channel TEXT, root TEXT, at INTEGER, author TEXT, text TEXT);
CREATE INDEX post_of ON post (channel);
CREATE TABLE reaction (post TEXT, emoji TEXT, who TEXT, at INTEGER, PRIMARY KEY (post, emoji, who));
CREATE TABLE board (name TEXT PRIMARY KEY, columns TEXT);
CREATE TABLE card (id TEXT PRIMARY KEY, board TEXT, "column" TEXT, title TEXT, text TEXT, owner TEXT, due INTEGER, who TEXT,
                   at INTEGER, maker TEXT);
CREATE TABLE submission (id TEXT PRIMARY KEY, card TEXT, at INTEGER, author TEXT, text TEXT);
CREATE TABLE meeting (id TEXT PRIMARY KEY, title TEXT, start INTEGER, minutes INTEGER, organizer TEXT, who TEXT, at INTEGER);
CREATE TABLE attendee (meeting TEXT, person TEXT, answer TEXT, who TEXT, at INTEGER, PRIMARY KEY (meeting, person));
CREATE TABLE event (place INTEGER PRIMARY KEY, id TEXT, at INTEGER, cause TEXT, data TEXT);
CREATE INDEX event_at ON event (at);
CREATE INDEX event_cause ON event (cause);
"""

_APPLICATIONS = (people, mail, notes, chat, canvas, calendar)
_ACTIONS: Mapping[str, Callable[..., str]] = {name: action for app in _APPLICATIONS for name, action in app.ACTIONS.items()}
_NEWS_SHOWN = 12


class Desk:
    """The office as the assistant meets it. Events that are over are gone; what they did is in the applications."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._sql = connection

    @staticmethod
    def open(events: Iterable[Event], days: int) -> Desk:
        """The morning of day 1, whatever happened before included."""
        desk = Desk(sqlite3.connect(":memory:", isolation_level=None))
        desk._sql.executescript(_SCHEMA)
        desk._sql.execute("INSERT INTO clock VALUES (0, ?, 0)", (days,))
        desk._sql.executemany(
            "INSERT INTO event (id, at, cause, data) VALUES (?, ?, ?, ?)",
            [(event.id, event.at, event.follows or event.on.get("tool", ""), json.dumps(event.json())) for event in events],
        )
        desk._pass_until(OPENS)
        return desk

    @staticmethod
    def load(saved: bytes) -> Desk:
        """The office that `dump` saved."""
        connection = sqlite3.connect(":memory:", isolation_level=None)
        connection.deserialize(saved)
        return Desk(connection)

    def dump(self) -> bytes:
        """The database as SQLite would have it in a file."""
        return self._sql.serialize()

    def close(self) -> None:
        self._sql.close()

    @property
    def now(self) -> int:
        """In minutes."""
        return self._one("SELECT now FROM clock")

    @property
    def end(self) -> int:
        """When the last day is over."""
        return moment(self._one("SELECT days FROM clock"), 0) + CLOSES

    def act(self, tool: str, arguments: Mapping[str, str]) -> str:
        """An operation of the assistant's, which may set off events. Raises Refused."""
        now = self.now
        said = _ACTIONS[tool](Seat(sql=self._sql, who=ME, now=now), **arguments)
        waiting = self._sql.execute("SELECT place, data FROM event WHERE cause = ? AND at IS NULL", (tool,)).fetchall()
        for place, data in waiting:
            event = Event.parse(json.loads(data))
            if event.set_off_by(tool, arguments):
                self._sql.execute("UPDATE event SET at = ? WHERE place = ?", (now + event.delay, place))
        return said

    def wait(self, until: int) -> list[str]:
        """Let the time pass, up to the end of the last day; what arrived."""
        return self._pass_until(min(until, self.end))

    def wait_for_news(self, until: int | None) -> list[str]:
        """Let the time pass until something arrives, the next morning comes, or the given time, whichever is first."""
        now = self.now
        morning = day_of(now) * DAY + OPENS
        latest = min(self.end, morning, *([] if until is None else [max(now, until)]))
        while self.now < latest:
            following = self._one("SELECT min(at) FROM event")
            news = self._pass_until(latest if following is None else min(latest, max(following, self.now)))
            if news:
                return news
        return []

    def written(self) -> list[Written]:
        """Everything that stands there because the assistant wrote it."""
        seat = Seat(sql=self._sql, who=ME, now=self.now)
        return [found for app in (mail, notes, chat, canvas, calendar) for found in app.written(seat)]

    def _pass_until(self, until: int) -> list[str]:
        """Turn the clock and let everything due happen, in its order."""
        news: list[str] = []
        while due := self._sql.execute(
            "SELECT place, at, data FROM event WHERE at <= ? ORDER BY at, place LIMIT 1", (until,)
        ).fetchone():
            place, at, data = due
            self._sql.execute("DELETE FROM event WHERE place = ?", (place,))
            self._sql.execute("UPDATE clock SET now = max(now, ?)", (at,))
            event = Event.parse(json.loads(data))
            self._happen(event, at)
            if event.news:
                news.append(f"{told(at)}: {event.news}")
        self._sql.execute("UPDATE clock SET now = max(now, ?)", (until,))
        left_out = len(news) - _NEWS_SHOWN
        return news if left_out <= 0 else [*news[:_NEWS_SHOWN], f"and {left_out} more"]

    def _happen(self, event: Event, at: int) -> None:
        # The assistant may have removed or renamed what a colleague's operation is about; then it comes to nothing.
        seat = Seat(sql=self._sql, who=event.who, now=at, made=event.id)
        try:
            _ACTIONS[event.tool](seat, **event.arguments)
        except Refused:
            return
        following = self._sql.execute("SELECT place, data FROM event WHERE cause = ? AND at IS NULL", (event.id,)).fetchall()
        for place, data in following:
            self._sql.execute("UPDATE event SET at = ? WHERE place = ?", (at + Event.parse(json.loads(data)).delay, place))

    def _one(self, query: str) -> Any:
        return self._sql.execute(query).fetchone()[0]

"""Level 0: one mail that asks for one thing, and perhaps another that changes it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random

from ninefold.agent.env.names import GOODS, NAMES, PLACES
from ninefold.agent.env.office.clock import end_of_day
from ninefold.agent.env.office.criteria import Criterion
from ninefold.agent.env.office.entry import Entry
from ninefold.agent.env.office.plan import HOUSE
from ninefold.agent.env.office.seat import ME
from ninefold.agent.env.office.stream import Event

TELL, WHERE, ASK, NOT, BUT, END = "Tell ", "Where is the ", " ?", "Not ", " but ", " ."
SUBJECT, PAGE = "errand", "Things"
_CHANGED = 0.4
"""Share of the errands that a second mail changes."""
_LYING = 4
"""Things that the page knows the place of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """Tell somebody something by chat, or answer where something is by what a page says."""

    asker: str
    reader: str
    """Whom to tell; empty where a place is asked for."""
    thing: str
    instead: str
    """What it is changed to; empty where it stays."""
    places: tuple[tuple[str, str], ...]
    """Thing → place."""

    @property
    def key(self) -> str:
        """Content key."""
        return "office/errand/" + json.dumps([self.asker, self.reader, self.thing, self.instead, self.places])

    @property
    def wanted(self) -> str:
        """The thing that counts in the end."""
        return self.instead or self.thing

    @staticmethod
    def draw(rng: Random) -> Errand:
        asker, reader = rng.sample(NAMES, 2)
        things = rng.sample(GOODS, _LYING)
        return Errand(
            asker=asker,
            reader=reader if rng.random() < 0.5 else "",
            thing=things[0],
            instead=things[1] if rng.random() < _CHANGED else "",
            places=tuple(sorted((thing, rng.choice(PLACES)) for thing in things)),
        )

    def events(self) -> list[Event]:
        people = [
            Event(
                id=f"x{number}",
                who=HOUSE,
                tool="people_set",
                at=0,
                arguments={"name": name, "title": "clerk", "team": "", "room": "", "boss": ""},
            )
            for number, name in enumerate(NAMES)
        ]
        lines = "\n".join(f"{thing}: {place}" for thing, place in self.places)
        page = Event(id="n1", who=HOUSE, tool="note_create", at=0, arguments={"parent": "", "title": PAGE, "text": lines})
        asked = f"{TELL}{self.reader} {self.thing}{END}" if self.reader else f"{WHERE}{self.thing}{ASK}"
        first = Event(id="m1", who=self.asker, tool="mail_send", at=1, arguments={"to": ME, "subject": SUBJECT, "text": asked})
        again = Event(
            id="m2",
            who=self.asker,
            tool="mail_reply",
            at=2,
            arguments={"thread": "m1", "text": f"{NOT}{self.thing}{BUT}{self.instead}{END}"},
        )
        return [*people, page, first, *([again] if self.instead else [])]

    def criteria(self) -> list[Criterion]:
        if self.reader:
            entry = Entry(kind="chat", place=f"@{self.reader}", line=self.wanted)
        else:
            entry = Entry(kind="mail", place="m1", line=dict(self.places)[self.wanted].casefold())
        event = "m2" if self.instead else "m1"
        return [Criterion(event=event, about="errand", entries=(entry,), after=0, by=end_of_day(0))]

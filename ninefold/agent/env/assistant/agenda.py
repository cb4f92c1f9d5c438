"""Levels 2 to 4: one to three days of mail that asks for things, changes its mind, and staff that moves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from random import Random

from ninefold.agent.env.assistant.criteria import Criterion
from ninefold.agent.env.assistant.desk import Entry, Event
from ninefold.agent.env.assistant.question import random_staff
from ninefold.agent.env.names import GOODS, NAMES

TELL, TELL_TOMORROW, MAIL, MAIL_END, NOTE = "Tell my boss ", "Tomorrow tell my boss ", "Mail ", " my note .", "Note my chat ."
NOT, BUT, THANKS, END = "Not ", " but ", "Thanks for the ", " ."

LEVEL_JOBS: Mapping[int, tuple[tuple[int, str], ...]] = {
    2: ((1, "now"),),
    3: ((1, "later"), (1, "now")),
    4: ((1, "later"), (1, "now"), (2, "later"), (3, "now")),
}
"""Level → the day and kind of each job: asked and due today, or asked today and due tomorrow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Something that somebody asks for: the events that tell of it, and what meets it."""

    events: tuple[Event, ...]
    """The request comes first."""
    due: Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Agenda:
    """Everything that happens, as data, and what it asks for."""

    days: int
    staff: Mapping[str, str]
    """Person → boss on day 1."""
    events: tuple[Event, ...]
    """In the order in which they happen."""
    criteria: tuple[Criterion, ...]

    @property
    def key(self) -> str:
        """Content key: all events, and the chart they happen in."""
        return "assistant/" + json.dumps([[asdict(event) for event in self.events], list(self.staff.values())])

    @staticmethod
    def draw(rng: Random, level: int) -> Agenda:
        """Each job has an asker and goods of its own, so that no two can be taken for one another."""
        staff = random_staff(rng)
        askers, goods = rng.sample(NAMES, len(NAMES)), rng.sample(GOODS, len(GOODS))
        jobs = [
            _job_later(rng, day, askers.pop(), staff, goods)
            if when == "later"
            else _job_now(rng, day, askers.pop(), staff, goods)
            for day, when in LEVEL_JOBS[level]
        ]
        noise = [_noise(rng, askers.pop(), goods) for _ in range(level)]
        events = [event for job in jobs for event in job.events] + noise
        rng.shuffle(events)
        events.sort(key=lambda event: event.day)
        criteria = tuple(Criterion(event=events.index(job.events[0]), entry=job.due) for job in jobs)
        return Agenda(days=max(1, level - 1), staff=staff, events=tuple(events), criteria=criteria)


def _job_now(rng: Random, day: int, asker: str, staff: Mapping[str, str], goods: list[str]) -> Job:
    item = goods.pop()
    kind = rng.choice(("tell", "mail", "note"))
    if kind == "tell":
        request = Event(day=day, kind="mail", who=asker, text=TELL + item + END)
        return Job(events=(request,), due=Entry(store="chat", day=day, to=staff[asker], text=item))
    if kind == "mail":
        reader = rng.choice([name for name in NAMES if name != asker])
        request = Event(day=day, kind="mail", who=asker, text=MAIL + reader + MAIL_END)
        source = Event(day=1, kind="note", who=asker, text=item)
        return Job(events=(request, source), due=Entry(store="mail", day=day, to=reader, text=item))
    request = Event(day=day, kind="mail", who=asker, text=NOTE)
    source = Event(day=1, kind="chat", who=asker, text=item)
    return Job(events=(request, source), due=Entry(store="note", day=day, to=asker, text=item))


def _job_later(rng: Random, day: int, asker: str, staff: Mapping[str, str], goods: list[str]) -> Job:
    """Due tomorrow; before that the wish changes, or the boss, or both."""
    item, boss = goods.pop(), staff[asker]
    events = [Event(day=day, kind="mail", who=asker, text=TELL_TOMORROW + item + END)]
    change = rng.choice(("wish", "boss", "both"))
    if change != "boss":
        wish = goods.pop()
        events.append(Event(day=day + 1, kind="mail", who=asker, text=NOT + item + BUT + wish + END))
        item = wish
    if change != "wish":
        boss = rng.choice([name for name in NAMES if name not in (asker, boss)])
        events.append(Event(day=day + 1, kind="staff", who=asker, text=boss))
    return Job(events=tuple(events), due=Entry(store="chat", day=day + 1, to=boss, text=item))


def _noise(rng: Random, author: str, goods: list[str]) -> Event:
    """Mail that asks for nothing, chat and notes that nobody needs."""
    kind = rng.choice(("mail", "chat", "note"))
    item = goods.pop()
    return Event(day=1, kind=kind, who=author, text=THANKS + item + END if kind == "mail" else item)

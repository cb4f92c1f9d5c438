"""A week in the making: events and criteria as they are drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from ninefold.agent.env.office.cast import HEADS, Cast, Person
from ninefold.agent.env.office.clock import end_of_day, moment
from ninefold.agent.env.office.criteria import Criterion, Harm
from ninefold.agent.env.office.entry import Entry
from ninefold.agent.env.office.rules import Rule
from ninefold.agent.env.office.seat import ME
from ninefold.agent.env.office.stream import Event
from ninefold.agent.env.office.wording import prose

HOUSE = "office"
"""Who does what nobody in particular does."""


@dataclass(slots=True, kw_only=True)
class Book:
    """A page of rules."""

    page: str
    """Its id."""
    title: str
    rules: dict[str, Rule]


@dataclass(slots=True, kw_only=True)
class Plan:
    """Grows by whatever is drawn; `events` and `criteria` are the task."""

    rng: Random
    cast: Cast
    days: int
    prose: int
    """Sentences that follow a request."""
    events: list[Event] = field(default_factory=list[Event])
    criteria: list[Criterion] = field(default_factory=list[Criterion])
    harms: list[Harm] = field(default_factory=list[Harm])
    books: dict[str, Book] = field(default_factory=dict[str, Book])
    """Office → its rules."""
    leads: dict[str, list[tuple[int, str]]] = field(default_factory=dict[str, list[tuple[int, str]]])
    """Title → from which minute on who holds it, in order."""
    state: dict[str, Any] = field(default_factory=dict[str, Any])
    """What kinds of matters remember from one to the next."""
    _taken: set[int] = field(default_factory=set[int])
    _named: int = 0

    def name(self, prefix: str) -> str:
        """An id that no other event has."""
        self._named += 1
        return f"{prefix}{self._named}"

    def minute(self, day: int, first: int = 9 * 60 + 5, last: int = 16 * 60) -> int:
        """A minute of the day at which nothing else begins, between two times of it."""
        free = [minute for minute in range(first, last) if moment(day, 0, minute) not in self._taken]
        found = moment(day, 0, self.rng.choice(free))
        self._taken.add(found)
        return found

    def happen(self, at: int | None, who: str, tool: str, prefix: str, /, **arguments: str) -> str:
        """An event; its id is also that of what it makes."""
        return self._add(Event(id=self.name(prefix), who=who, tool=tool, arguments=arguments, at=at))

    def answer(self, asked: str, has: str, who: str, text: str, delay: int) -> str:
        """Somebody answers by direct message once a message to them holds a word."""
        on = {"tool": "chat_send", "channel": f"@{asked}", "text": has}
        arguments = {"channel": f"@{ME}", "text": text}
        return self._add(Event(id=self.name("p"), who=who, tool="chat_send", arguments=arguments, on=on, delay=delay))

    def follow(self, event: str, who: str, text: str, delay: int) -> str:
        """A direct message some minutes after another event."""
        arguments = {"channel": f"@{ME}", "text": text}
        return self._add(Event(id=self.name("p"), who=who, tool="chat_send", arguments=arguments, follows=event, delay=delay))

    def _add(self, event: Event) -> str:
        self.events.append(event)
        return event.id

    def mail(self, at: int, who: str, subject: str, text: str) -> str:
        """Mail to the assistant, with talk behind what it says; the thread's id."""
        talk = f"\n{prose(self.rng, self.prose)}" if self.prose else ""
        return self.happen(at, who, "mail_send", "m", to=ME, subject=subject, text=text + talk)

    def due(self, event: str, about: str, *entries: Entry, after: int, by: int | None = None) -> None:
        """The event asks for these entries, from a minute on; by the end of that day where nothing else is said."""
        last = end_of_day(after) if by is None else by
        self.criteria.append(Criterion(event=event, about=about, entries=entries, after=after, by=last))

    def holder(self, title: str, at: int) -> str:
        """Who holds a title at that minute."""
        return [name for since, name in self.leads[title] if since <= at][-1]

    def someone(self) -> Person:
        """Anybody who runs no office and leads no team."""
        return self.rng.choice([person for person in self.cast.people if person.title == "clerk"])

    def fresh(self, kind: str, of: int) -> int:
        """A number from 0 below `of` that this kind has not had yet. Raises Full where there is none."""
        had: set[int] = self.state.setdefault(f"fresh {kind}", set())
        left = [number for number in range(of) if number not in had]
        if not left:
            raise Full(kind)
        number = self.rng.choice(left)
        had.add(number)
        return number


class Full(Exception):
    """There is no room for another matter of a kind."""


@contextmanager
def if_there_is_room() -> Iterator[None]:
    """Whatever finds no room is left out."""
    try:
        yield
    except Full:
        return


def furnish(plan: Plan, books: Mapping[str, tuple[str, Mapping[str, int]]], *, bulk: int) -> None:
    """People, channels and rule pages as they stand on the first morning; `bulk` sentences around each page's rules."""
    for person in plan.cast.people:
        plan.leads.setdefault(person.title, []).append((0, person.name))
    for person in plan.cast.people:
        enter(plan, 0, person, person.title)
    for name in ("#all", "#intake", *(f"#{team.casefold()}" for team in sorted({p.team for p in plan.cast.people}))):
        plan.happen(0, HOUSE, "chat_open", "x", name=name)
    for office, (title, rules) in books.items():
        lines = [Rule(value=value).line(key) for key, value in rules.items()]
        around = [prose(plan.rng, 3) for _ in range(bulk // 3)]
        head = plan.holder(HEADS[office], 0)
        page = plan.happen(0, head, "note_create", "n", parent="", title=title, text="\n".join([*lines, *around]))
        plan.books[office] = Book(page=page, title=title, rules={key: Rule(value=value) for key, value in rules.items()})


def enter(plan: Plan, at: int, person: Person, title: str) -> None:
    """Enter a person in the directory under a title."""
    lead = f"lead of {person.team}"
    boss = plan.holder(lead, at) if title == "clerk" and lead in plan.leads else plan.holder("controller", at)
    plan.happen(
        at,
        HOUSE,
        "people_set",
        "x",
        name=person.name,
        title=title,
        team=person.team,
        room=str(person.room),
        boss=boss,
    )


def change_rule(plan: Plan, office: str, key: str, at: int, later: int) -> None:
    """From that minute on another number holds; it is said on the page and in #all."""
    book = plan.books[office]
    rule = Rule(value=book.rules[key].value, changes=at, later=later)
    block = f"{book.page}.{[*book.rules].index(key) + 1}"
    book.rules[key] = rule
    head = plan.holder(HEADS[office], at)
    plan.happen(at, head, "note_edit", "x", block=block, text=rule.line(key))
    plan.happen(at, head, "chat_send", "p", channel="#all", text=f"The {book.title} change today, see their page.")


def change_lead(plan: Plan, team: str, day: int) -> None:
    """Overnight somebody else of the team leads it; it is said in #all."""
    title, at = f"lead of {team}", moment(day, 7)
    old = plan.holder(title, at)
    members = [p for p in plan.cast.people if p.team == team and p.title == "clerk" and p.name != old]
    if not members:
        raise Full(title)
    new = plan.rng.choice(members)
    plan.leads[title].append((at, new.name))
    former = next(person for person in plan.cast.people if person.name == old)
    enter(plan, at, former, "clerk")
    enter(plan, at, new, title)
    plan.happen(at, HOUSE, "chat_send", "p", channel="#all", text=f"From today on {new.name} leads {team}.")

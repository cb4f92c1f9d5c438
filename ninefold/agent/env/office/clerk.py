"""What every demonstrator of the office can do: read what came, look things up, remember what is due, answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from ninefold.agent.env.office.clock import day_of, parsed, told
from ninefold.agent.env.office.rules import Rule, read_rules
from ninefold.agent.env.office.seat import ME
from ninefold.agent.env.script import Steps, use
from ninefold.core.protocols import Move, Observation
from ninefold.core.types import Effort

Text = Generator[Move, Sequence[Observation], str]
"""Steps that end with what was seen."""

_MAIL = re.compile(r"^(day \d+ \d\d:\d\d) (.+?) to (.+?): .*$", re.MULTILINE)
_POST = re.compile(r"^(\S+?)(?: \(to (\S+)\))? \| (day \d+ \d\d:\d\d) \| (.+?): (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Mail or a post that somebody wrote."""

    place: str
    """Thread of the mail, or channel."""
    post: str
    """Id of the post; empty for mail."""
    at: int
    who: str
    lines: tuple[str, ...]


def mails(thread: str, text: str) -> list[Message]:
    """The mail of a thread that others wrote, as `mail_read` shows it."""
    heads = list(_MAIL.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return [
        Message(place=thread, post="", at=parsed(head[1]) or 0, who=head[2], lines=_lines(text[head.end() : end]))
        for head, end in zip(heads, ends)
        if head[2] != ME
    ]


def posts(channel: str, text: str) -> list[Message]:
    """The posts of others in a channel, as `chat_read` shows it."""
    return [
        Message(place=channel, post=found[1], at=parsed(found[3]) or 0, who=found[4], lines=_lines(found[5]))
        for found in _POST.finditer(text)
        if found[4] != ME
    ]


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line for line in text.strip().splitlines() if line)


@dataclass(slots=True, kw_only=True)
class Clerk:
    """A demonstrator's memory. Low effort believes what it has read once, high effort for a day, max reads it again."""

    effort: Effort
    rng: Random
    slip_at: int = -1
    """Number of the answer that goes wrong; −1: none."""
    now: int = 0
    over: bool = False
    memory: dict[str, Any] = field(default_factory=dict[str, Any])
    """What kinds of matters keep from one message to the next."""
    _agenda: list[tuple[int, Callable[[], Steps]]] = field(default_factory=list[tuple[int, Callable[[], Steps]]])
    _read: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    _answers: int = 0

    def do(self, tool: str, /, **arguments: str) -> Text:
        """One call; what it returned."""
        think = "" if self.effort == "low" else tool.replace("_", " ")
        (seen,) = yield use(tool, think, **arguments)
        return seen.text

    def page(self, title: str) -> Text:
        """A page by its title."""
        known = self._read.get(title)
        if known is not None and (self.effort == "low" or (self.effort == "high" and known[0] == day_of(self.now))):
            return known[1]
        found = yield from self.do("note_search", query=f'"{title}"')
        ids = [line.split(" | ")[0] for line in found.splitlines() if f" | {title} | " in line]
        text = (yield from self.do("note_read", page=ids[0])) if ids else ""
        self._read[title] = day_of(self.now), text
        return text

    def rules(self, title: str) -> Generator[Move, Sequence[Observation], Mapping[str, Rule]]:
        """The rules on a page."""
        return read_rules((yield from self.page(title)))

    def person(self, query: str) -> Text:
        """The first line of the directory that fits."""
        found = yield from self.do("people_search", query=query)
        return found.splitlines()[0]

    def said(self, text: str) -> str:
        """An answer as it is given: the one that goes wrong is off by one, or names the wrong thing."""
        wrong = self._answers == self.slip_at
        self._answers += 1
        if not wrong:
            return text
        numbers = list(re.finditer(r"\d+", text))
        if not numbers:
            return text.rpartition(" ")[0] + " nothing"
        last = numbers[-1]
        return text[: last.start()] + str(int(last[0]) + 1) + text[last.end() :]

    def reply(self, thread: str, text: str) -> Text:
        return (yield from self.do("mail_reply", thread=thread, text=self.said(text)))

    def later(self, at: int, steps: Callable[[], Steps]) -> None:
        """Remember to do something at a time."""
        self._agenda.append((at, steps))

    def due(self) -> Steps:
        """Everything that was to be done by now."""
        while ready := [item for item in self._agenda if item[0] <= self.now]:
            item = min(ready, key=lambda one: one[0])
            self._agenda.remove(item)
            yield from item[1]()

    def wait(self) -> Text:
        """Until something comes or is due; the time, and whether the last day is over, are noted."""
        following = min((at for at, _ in self._agenda), default=None)
        until = "next" if following is None else f"next or {told(following)}"
        seen = yield from self.do("clock_wait", until=until)
        self.note_time(seen)
        return seen

    def note_time(self, seen: str) -> None:
        """From what a clock tool said."""
        first, _, over = seen.partition("\n")[0].partition(",")
        self.now = parsed(first.removeprefix("it is ")) or self.now
        self.over = bool(over) or seen.startswith("error")

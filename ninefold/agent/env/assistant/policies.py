"""Who plays assistant tasks: gold and demonstrators."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from ninefold.agent.env.assistant.agenda import END, MAIL, MAIL_END, NOTE, TELL, TELL_TOMORROW
from ninefold.agent.env.assistant.criteria import Criterion
from ninefold.agent.env.assistant.desk import Entry
from ninefold.agent.env.assistant.question import USER
from ninefold.agent.env.names import GOODS, NAMES
from ninefold.agent.env.script import Script, Steps, use
from ninefold.core.protocols import Move, Observation, Style
from ninefold.core.seeds import rng_of
from ninefold.core.types import Effort, Task

TRIES: Mapping[Effort, int] = {"low": 1, "high": 2, "max": 4}
"""How often a demonstrator asks a busy directory."""

RECHECKS: Mapping[Effort, float] = {"low": 0.15, "high": 0.35, "max": 0.5}
"""Share of the demonstrations that ask once more after each answer: waste that RL under a budget can trim."""

Found = Generator[Move, Sequence[Observation], str | None]
"""Steps that end with what they found."""


def gold(task: Task) -> Script:
    """Does what the criteria ask for, day by day."""
    return Script(_meet(task))


def _meet(task: Task) -> Steps:
    criteria = [Criterion.parse(data) for data in task.data["criteria"]]
    for day in range(1, task.data["days"] + 1):
        if day > 1:
            yield use("next_day")
        for criterion in criteria:
            if criterion.entry is not None and criterion.entry.day == day:
                yield write(criterion.entry)
    yield Move(response=next((c.answer for c in criteria if c.answer is not None), "done"))


def write(entry: Entry) -> Move:
    """The move that writes an entry, were it the right day."""
    if entry.to == USER:
        return use("send", text=entry.text)
    if entry.store == "note":
        return use("note_write", title=entry.to, text=entry.text)
    return use(f"{entry.store}_send", to=entry.to, text=entry.text)


def demonstrate(task: Task, style: Style) -> Script:
    """Acts on what it observes; patience and care follow the effort."""
    rng = rng_of(task.id, style.effort, style.seed)
    slips = rng.random() < style.slip
    return Script(_ask_around(task, style.effort, rng, slips) if task.level < 2 else _obey(task, style.effort, rng, slips))


def _look_up(name: str, effort: Effort, *, misread: Random | None = None) -> Found:
    """Ask for somebody's boss until the directory answers or patience ends; misreading asks for somebody else."""
    for _ in range(TRIES[effort]):
        asked = misread.choice(NAMES) if misread is not None and misread.random() < 0.7 else name
        (seen,) = yield use("lookup", "" if effort == "low" else asked, key=asked)
        if seen.text in NAMES:
            return seen.text
    return None


def _ask_around(task: Task, effort: Effort, rng: Random, slips: bool) -> Steps:
    name = task.data["person"]
    misread_hop = rng.randrange(task.data["hops"]) if slips else -1
    rechecks = rng.random() < RECHECKS[effort]
    for hop in range(task.data["hops"]):
        asked = name
        name = yield from _look_up(asked, effort, misread=rng if hop == misread_hop else None)
        if name is None:
            break
        if rechecks:
            yield use("lookup", asked, key=asked)
    answer = name or ("unknown" if rng.random() < 0.5 else rng.choice(NAMES))
    if task.data["sent"]:
        yield use("send", text=answer)
        yield Move(response="done")
    else:
        yield Move(response=answer)


@dataclass(slots=True)
class _Wish:
    asker: str
    item: str


_LINE = re.compile(r"day \d+ (\w+): (.*)")


def _wording(*parts: str) -> re.Pattern[str]:
    return re.compile(r"(\w+)".join(re.escape(part) for part in parts))


_TELL, _TOMORROW, _MAIL = _wording(TELL, END), _wording(TELL_TOMORROW, END), _wording(MAIL, MAIL_END)
_CHANGED = re.compile(r"Not \w+ but (\w+) \.")


def _obey(task: Task, effort: Effort, rng: Random, slips: bool) -> Steps:
    """Reads each day's mail and does what it says; low effort does not go back on what it has already noted down."""
    due: list[_Wish] = []
    careless_day = rng.randint(1, task.data["days"]) if slips else 0
    for day in range(1, task.data["days"] + 1):
        if day > 1:
            yield use("next_day")
        (inbox,) = yield use("mail_search", "" if effort == "low" else f"day {day}", query=f"day {day}")
        mails = [found.groups() for line in inbox.text.splitlines() if (found := _LINE.fullmatch(line))]
        for author, text in mails:
            if effort != "low" and (changed := _CHANGED.fullmatch(text)):
                for wish in due:
                    wish.item = changed[1] if wish.asker == author else wish.item
        tells, due = due, []
        for author, text in mails:
            if told := _TELL.fullmatch(text):
                tells.append(_Wish(author, told[1]))
            elif told := _TOMORROW.fullmatch(text):
                due.append(_Wish(author, told[1]))
            elif told := _MAIL.fullmatch(text):
                yield from _pass_on("note_search", author, "mail_send", "to", told[1])
            elif text == NOTE:
                yield from _pass_on("chat_search", author, "note_write", "title", author)
        for wish in tells:
            item = rng.choice(GOODS) if day == careless_day else wish.item
            boss = yield from _look_up(wish.asker, effort)
            if boss is not None:
                yield use("chat_send", to=boss, text=item)
    yield Move(response="done")


def _pass_on(search: str, author: str, tool: str, address: str, to: str) -> Steps:
    """Find what the author wrote and write it elsewhere."""
    (seen,) = yield use(search, query=f"{author}:")
    line = seen.text.splitlines()[0]
    if ": " in line:
        yield use(tool, **{address: to, "text": line.split(": ", 1)[1]})

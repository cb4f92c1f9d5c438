"""The office family: generator and verifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ninefold.agent.env.draw import draw
from ninefold.agent.env.names import GOODS, NAMES, PLACES
from ninefold.agent.env.office import errand, hacks, policies
from ninefold.agent.env.office.cast import Cast
from ninefold.agent.env.office.clock import CLOSES, hours
from ninefold.agent.env.office.criteria import Criterion, Harm, score
from ninefold.agent.env.office.desk import Desk
from ninefold.agent.env.office.entry import Entry
from ninefold.agent.env.office.errand import Errand
from ninefold.agent.env.office.stream import Event
from ninefold.agent.env.office.week import CONVENTIONS, SIZES, plan_week
from ninefold.agent.env.office.world import TOOLS, OfficeWorld
from ninefold.core.protocols import SandboxRuntime, ScriptedPolicy, Style
from ninefold.core.seeds import rng_of
from ninefold.core.types import Domain, Limits, Result, Split, Task

ERRAND_TOOLS = ("mail_search", "mail_reply", "note_search", "chat_send")
NOBODY = "Write to nobody unless it is asked for."


class Office:
    """Level 0 is one errand; levels 1 to 4 are one to five days of mail, chat, notes, boards and calendars (report, agents)."""

    name = "office"
    domain: Domain = "agents"
    levels = 5
    tools = TOOLS
    isolated = False

    def generate(self, split: Split, level: int, seed: int) -> Task:
        """A task of the split; its key is the errand, or everybody who is there, of whom all else is drawn."""
        return _errand_task(split, seed) if level == 0 else _week_task(split, level, seed)

    def open(self, task: Task, *, seed: int, runtime: SandboxRuntime | None = None) -> OfficeWorld:
        events = [Event.parse(event) for event in task.data["events"]]
        return OfficeWorld(task, Desk.open(events, task.data["days"]))

    def restore(self, task: Task, saved: bytes, *, runtime: SandboxRuntime | None = None) -> OfficeWorld:
        return OfficeWorld(task, Desk.load(saved))

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        """Judge every event's criterion by what stands there; a pass needs all of them and nothing besides."""
        return score(criteria(task), [Harm(**harm) for harm in task.data["harms"]], final)

    def observe(self, task: Task, final: Mapping[str, Any], seed: int, *, runtime: SandboxRuntime | None = None) -> Any:
        """What was written, in any order and at any time that was right; questions are left out."""
        entries = [Entry(**{name: value for name, value in data.items() if name != "at"}) for data in final["written"]]
        return sorted(str(entry) for entry in entries if not entry.free)

    def gold(self, task: Task) -> ScriptedPolicy:
        return policies.gold(task)

    def demonstrate(self, task: Task, style: Style) -> ScriptedPolicy:
        return policies.demonstrate(task, style)

    def hacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        return hacks.hacks(task)

    def phrases(self) -> Sequence[str]:
        said = [errand.TELL, errand.WHERE, errand.ASK, errand.NOT, errand.BUT, errand.END, errand.SUBJECT, errand.PAGE]
        seen = [" | day 1 00:01 | ", " | day 1 00:02 | ", "n1 | ", " | n1.", "Re: ", "m1", "is:unread", "posted as p-1"]
        rest = ["sent to ", "no mail", "nothing", "done", ": ", "@", "Do what your mail asks .", f" {NOBODY}"]
        return tuple(dict.fromkeys([*said, *seen, *rest, *NAMES, *GOODS, *PLACES]))


def criteria(task: Task) -> list[Criterion]:
    """Of every event that asks for something, in the order in which they were planned."""
    return [Criterion.parse(data) for data in task.data["criteria"]]


def _errand_task(split: Split, seed: int) -> Task:
    drawn = draw(Errand.draw, lambda e: e.key, split=split, names=("office", 0, seed))
    data = {
        "days": 1,
        "events": [event.json() for event in drawn.events()],
        "criteria": [criterion.json() for criterion in drawn.criteria()],
        "harms": [],
    }
    return Task(
        id=f"office/{split}/0/{seed}",
        domain="agents",
        family="office",
        split=split,
        level=0,
        seed=seed,
        shape=f"office/{'tell' if drawn.reader else 'where'}",
        instruction="Do what your mail asks .",
        tools=ERRAND_TOOLS,
        data=data,
        limits=Limits(turns=8, new_tokens=330),
    )


def _week_task(split: Split, level: int, seed: int) -> Task:
    size = SIZES[level]
    names = ("office", level, seed)
    cast = draw(lambda rng: Cast.draw(rng, size.people, size.firms), lambda c: c.key, split=split, names=names)
    plan, offices = plan_week(rng_of("week", level, cast.key), cast, size)
    events = sorted(plan.events, key=lambda event: (event.at is None, event.at or 0))
    data = {
        "days": size.days,
        "offices": list(offices),
        "events": [event.json() for event in events],
        "criteria": [criterion.json() for criterion in plan.criteria],
        "harms": [asdict(harm) for harm in plan.harms],
    }
    until = f"the end of day {size.days}, {hours(CLOSES)}"
    return Task(
        id=f"office/{split}/{level}/{seed}",
        domain="agents",
        family="office",
        split=split,
        level=level,
        seed=seed,
        shape=f"office/days/{size.days}",
        instruction=(
            f"You are the assistant of an office ({', '.join(offices)}) until {until}; it is day 1, 09:00. Do what mail and "
            f"chat ask of you, in the way that the page `{CONVENTIONS}` says. {NOBODY} Time passes only while you wait, so "
            "deal with what has come before you do, and answer `done` once the last day is over."
        ),
        tools=tuple(tool.name for tool in TOOLS),
        data=data,
        limits=_limits(len(plan.events), size.days),
    )


def _limits(events: int, days: int) -> Limits:
    """Eight calls for whatever happens, each of a hundred tokens, with what they return."""
    turns = 40 + 8 * events
    return Limits(turns=turns, new_tokens=100 * turns, context=1_000 * turns + 16_384 * days)

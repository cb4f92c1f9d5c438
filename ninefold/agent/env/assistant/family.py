"""The assistant family: generator and verifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from random import Random
from typing import Any

from ninefold.agent.env.assistant import agenda, hacks, policies
from ninefold.agent.env.assistant.agenda import Agenda
from ninefold.agent.env.assistant.criteria import Criterion, score
from ninefold.agent.env.assistant.desk import Desk, Event
from ninefold.agent.env.assistant.question import WORDINGS, Question
from ninefold.agent.env.assistant.world import AGENDA_TOOLS, QUESTION_TOOLS, TOOLS, AssistantWorld
from ninefold.agent.env.draw import draw
from ninefold.agent.env.names import GOODS, NAMES
from ninefold.core.protocols import SandboxRuntime, ScriptedPolicy, Style
from ninefold.core.seeds import rng_of
from ninefold.core.types import Domain, Limits, Result, Split, Task


class Assistant:
    """Levels 0 and 1 ask the directory, one hop or two; levels 2 to 4 are one to three days of mail."""

    name = "assistant"
    domain: Domain = "agents"
    levels = 5
    tools = TOOLS
    isolated = False

    def generate(self, split: Split, level: int, seed: int) -> Task:
        """A task of the split; its key is the staff chart with the question, or with all events."""
        return _question_task(split, level, seed) if level < 2 else _agenda_task(split, level, seed)

    def open(self, task: Task, *, seed: int, runtime: SandboxRuntime | None = None) -> AssistantWorld:
        events = [Event(**event) for event in task.data["events"]]
        return AssistantWorld(task, Desk.open(task.data["staff"], events))

    def restore(self, task: Task, saved: bytes, *, runtime: SandboxRuntime | None = None) -> AssistantWorld:
        return AssistantWorld(task, Desk.load(saved))

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        """Combine the criteria of all events; a pass needs every one."""
        return score([Criterion.parse(data) for data in task.data["criteria"]], final)

    def observe(self, task: Task, final: Mapping[str, Any], seed: int, *, runtime: SandboxRuntime | None = None) -> Any:
        """What was written, in any order, and the answer where one is asked for."""
        asked = any(data["answer"] is not None for data in task.data["criteria"])
        return {"written": sorted(map(str, final["written"])), "response": final["response"] if asked else None}

    def gold(self, task: Task) -> ScriptedPolicy:
        return policies.gold(task)

    def demonstrate(self, task: Task, style: Style) -> ScriptedPolicy:
        return policies.demonstrate(task, style)

    def hacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        return hacks.hacks(task)

    def phrases(self) -> Sequence[str]:
        questions = [part for w in WORDINGS for part in (w.once, w.twice, w.end, w.send)]
        mails = [agenda.TELL, agenda.TELL_TOMORROW, agenda.MAIL, agenda.MAIL_END, agenda.NOTE, agenda.NOT, agenda.BUT]
        seen = ["error: busy", "sent", "saved", "done", "unknown", "nothing", "day ", ": ", agenda.THANKS]
        return tuple(dict.fromkeys([*questions, *seen, *mails, *NAMES, *GOODS]))


def _question_task(split: Split, level: int, seed: int) -> Task:
    names = ("assistant", level, seed)
    question = draw(lambda rng: Question.draw(rng, level + 1), lambda q: q.key, split=split, names=names)
    return Task(
        id=f"assistant/{split}/{level}/{seed}",
        domain="agents",
        family="assistant",
        split=split,
        level=level,
        seed=seed,
        shape=f"assistant/{question.hops}{'/sent' if question.sent else ''}",
        instruction=question.ask(rng_of(*names, split, "wording").choice(WORDINGS)),
        tools=QUESTION_TOOLS,
        data={
            "days": 1,
            "staff": dict(question.staff),
            "events": [],
            "criteria": [question.criterion.json()],
            "person": question.person,
            "hops": question.hops,
            "sent": question.sent,
        },
        limits=Limits(turns=9, new_tokens=330),
    )


def _agenda_task(split: Split, level: int, seed: int) -> Task:
    def make(rng: Random) -> Agenda:
        return Agenda.draw(rng, level)

    drawn = draw(make, lambda a: a.key, split=split, names=("assistant", level, seed))
    until = f", day by day, until day {drawn.days}" if drawn.days > 1 else ""
    return Task(
        id=f"assistant/{split}/{level}/{seed}",
        domain="agents",
        family="assistant",
        split=split,
        level=level,
        seed=seed,
        shape=f"assistant/days/{drawn.days}",
        instruction=f"It is day 1. Do what your mail asks{until} .",
        tools=AGENDA_TOOLS,
        data={
            "days": drawn.days,
            "staff": dict(drawn.staff),
            "events": [asdict(event) for event in drawn.events],
            "criteria": [criterion.json() for criterion in drawn.criteria],
        },
        limits=Limits(turns=12 + 8 * (drawn.days - 1), new_tokens=400 * drawn.days, context=1024 * drawn.days),
    )

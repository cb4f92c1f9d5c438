"""The research family: generator and verifier."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ninefold.agent.env.draw import draw
from ninefold.agent.env.research import deep, note, policies, reporters
from ninefold.agent.env.research.assignment import LEVELS, Assignment
from ninefold.agent.env.research.deep import StacksWorld
from ninefold.agent.env.research.facts import RELATIONS
from ninefold.agent.env.research.inquiry import DEPTHS
from ninefold.agent.env.research.world import TOOLS, ResearchWorld
from ninefold.core.protocols import SandboxRuntime, ScriptedPolicy, Style
from ninefold.core.types import Domain, Limits, Result, Split, Task

_FORM = " Note it like: Zoe is in Bonn [0]"
"""An example that is nobody's answer."""


class Research:
    """One fact by one search (level 0), two (1), a chain among outdated facts (2), and with corrections (3).

    Then deep research over the reference of two libraries, each claim with its span: four questions of up to two hops (4),
    twelve of up to three (5).
    """

    name = "research"
    domain: Domain = "agents"
    levels = len(LEVELS) + len(DEPTHS)
    tools = TOOLS
    isolated = False

    def generate(self, split: Split, level: int, seed: int) -> Task:
        """A task of the split; its key is the set of facts to be found."""
        if level >= len(LEVELS):
            return deep.generate(split, level, seed, level - len(LEVELS))
        drawn = draw(lambda rng: Assignment.draw(rng, level), lambda a: a.key, split=split, names=("research", level, seed))
        return Task(
            id=f"research/{split}/{level}/{seed}",
            domain="agents",
            family="research",
            split=split,
            level=level,
            seed=seed,
            shape=f"research/{level}/{len(drawn.claims)}",
            instruction=" ".join(question.text for question in drawn.questions) + _FORM,
            tools=tuple(tool.name for tool in TOOLS),
            data={
                "documents": [asdict(document) for document in drawn.documents],
                "claims": [[fact.sentence, cited] for fact, cited in drawn.claims],
                "asked": [[q.person, q.relation, q.chained] for q in drawn.questions],
            },
            limits=Limits(turns=4 + 12 * level, new_tokens=256 * (level + 1), context=1024 * (level + 1)),
        )

    def open(self, task: Task, *, seed: int, runtime: SandboxRuntime | None = None) -> ResearchWorld | StacksWorld:
        return _world(task, ())

    def restore(self, task: Task, saved: bytes, *, runtime: SandboxRuntime | None = None) -> ResearchWorld | StacksWorld:
        return _world(task, json.loads(saved))

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        """Every fact must be right, and stated by the document that is cited for it; in deep research word for word."""
        if _is_deep(task):
            return deep.verify(task, final)
        texts = {document["id"]: document["text"] for document in task.data["documents"]}
        wanted = [sentence for sentence, _ in task.data["claims"]]
        return note.judge(final.get("response"), wanted, texts, final.get("shown", ()))

    def observe(self, task: Task, final: Mapping[str, Any], seed: int, *, runtime: SandboxRuntime | None = None) -> Any:
        """The claims in any order, and which of the documents that they cite were read."""
        if _is_deep(task):
            return deep.observe(task, final)
        claims = note.parse(final["response"] or "") or []
        return sorted([*claim, claim.cited in final["shown"]] for claim in claims)

    def gold(self, task: Task) -> ScriptedPolicy:
        return reporters.gold(task) if _is_deep(task) else policies.gold(task)

    def demonstrate(self, task: Task, style: Style) -> ScriptedPolicy:
        return reporters.demonstrate(task, style) if _is_deep(task) else policies.demonstrate(task, style)

    def hacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        return reporters.hacks(task) if _is_deep(task) else policies.hacks(task)

    def phrases(self) -> Sequence[str]:
        parts = [part for relation in RELATIONS.values() for part in (relation.now, relation.once, *relation.question)]
        return tuple(dict.fromkeys([*parts, _FORM, "the boss of ", "Corrections", " .", " [", "]", "nothing"]))


def _is_deep(task: Task) -> bool:
    return task.level >= len(LEVELS)


def _world(task: Task, shown: Sequence[str]) -> ResearchWorld | StacksWorld:
    return StacksWorld(task, shown) if _is_deep(task) else ResearchWorld(task, shown)

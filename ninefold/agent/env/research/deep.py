"""Levels of deep research: their tasks and their reading room."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ninefold.agent.env.calls import refusal
from ninefold.agent.env.draw import draw
from ninefold.agent.env.research import inquiry, report
from ninefold.agent.env.research.inquiry import DEPTHS, FORM, Wanted
from ninefold.agent.env.research.stacks import stacks
from ninefold.agent.env.research.world import TOOLS
from ninefold.core.errors import UserError
from ninefold.core.protocols import Observation
from ninefold.core.types import Call, Limits, Result, Split, Task

HITS = 10
"""Results of one search."""


def generate(split: Split, level: int, seed: int, depth: int) -> Task:
    """A task of the split; its key is the set of claims to be made. `depth` counts the levels from the first of these."""
    trails = draw(
        lambda rng: inquiry.draw(rng, DEPTHS[depth]),
        lambda drawn: "research/" + ",".join(wanted.text for trail in drawn for wanted in trail.wanted()),
        split=split,
        names=("research", level, seed),
    )
    wanted = [one for trail in trails for one in trail.wanted()]
    cited = {one.cited for one in wanted}
    return Task(
        id=f"research/{split}/{level}/{seed}",
        domain="agents",
        family="research",
        split=split,
        level=level,
        seed=seed,
        shape=f"research/{level}",
        instruction="\n".join([*(f"{n}. {trail.text}" for n, trail in enumerate(trails, 1)), FORM]),
        tools=tuple(tool.name for tool in TOOLS),
        data={
            "stacks": stacks().index.digest,
            "wanted": [[one.text, one.cited, list(one.marks)] for one in wanted],
            "texts": {entry.id: entry.text for entry in stacks().entries.values() if entry.id in cited},
            "trails": [json.loads(json.dumps(asdict(trail))) for trail in trails],
        },
        limits=Limits(turns=100 * (depth + 1), new_tokens=16_000 * (depth + 1), context=128_000 * (depth + 1)),
        provenance="reference documentation of NetworkX and NumPy",
    )


def wanted_of(task: Task) -> list[Wanted]:
    """The claims that the report must make."""
    return [Wanted(text, cited, tuple(marks)) for text, cited, marks in task.data["wanted"]]


def verify(task: Task, final: Mapping[str, Any]) -> Result:
    """By the texts that lie in the task: nobody needs the documents to judge."""
    return report.judge(final.get("response"), wanted_of(task), task.data["texts"], final.get("opened", ()))


def observe(task: Task, final: Mapping[str, Any]) -> Any:
    """The claims in any order, and whether each is supported."""
    claims = report.parse(final["response"] or "") or []
    known = {one.text: one for one in wanted_of(task)}
    seen = [[c.text, c.cited, report.is_supported(c, known.get(c.text), task.data["texts"], final["opened"])] for c in claims]
    return sorted(seen)


class StacksWorld:
    """Search the reference, open entries; it remembers which were opened."""

    def __init__(self, task: Task, opened: Sequence[str]) -> None:
        """Raises UserError where this machine's documents are not those that the task was made from."""
        if stacks().index.digest != task.data["stacks"]:
            raise UserError(f"task {task.id} was made from other versions of NetworkX and NumPy; generate it anew")
        self._opened = list(opened)

    def call(self, call: Call) -> Observation:
        refused = refusal(call, TOOLS)
        if refused is not None:
            return Observation(text=refused)
        if call.tool == "search":
            hits = stacks().index.search(call.arguments["query"], HITS)
            return Observation(text="\n".join(f"{hit.id} {hit.title}" for hit in hits) or "nothing")
        id = call.arguments["id"].strip()
        try:
            text = stacks().index.open(id).text
        except KeyError:
            return Observation(text="error: no such document")
        if id not in self._opened:
            self._opened.append(id)
        return Observation(text=text)

    def final(self, response: str | None) -> Mapping[str, Any]:
        """The last response, and the ids of the documents that were opened."""
        return {"response": response, "opened": self._opened}

    def save(self) -> bytes:
        return json.dumps(self._opened).encode()

    def close(self) -> None:
        """The documents belong to the process."""

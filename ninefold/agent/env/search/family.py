"""The search family: its world, and its verifier."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ninefold.agent.env.calls import refusal
from ninefold.agent.env.quiz import response_of
from ninefold.agent.env.search.library import library
from ninefold.agent.env.search.policies import demonstration, hacks
from ninefold.agent.env.search.question import HITS, KINDS, Question, question
from ninefold.core.errors import UserError
from ninefold.core.protocols import Observation, SandboxRuntime, ScriptedPolicy, Style, Tool
from ninefold.core.seeds import rng_of
from ninefold.core.types import Call, Domain, Limits, Result, Split, Task

TOOLS = (
    Tool(name="search", description="Find entries by their words.", parameters={"query": "string"}),
    Tool(name="open", description="Read an entry.", parameters={"id": "string"}),
)
_NOTHING = "nothing found"
_NO_ENTRY = "error: no such entry"


class Search:
    """Which entry says this (level 0), which word completes it (1), a word of the entry that it refers to (2).

    The answer counts only if the document that holds it was opened and, from level 1 on, is cited.
    """

    name = "search"
    domain: Domain = "general"
    levels = len(KINDS)
    tools = TOOLS
    isolated = False

    def generate(self, split: Split, level: int, seed: int) -> Task:
        asked = question(split, level, seed)
        return Task(
            id=f"{self.name}/{split}/{level}/{seed}",
            domain=self.domain,
            family=self.name,
            split=split,
            level=level,
            seed=seed,
            shape=f"{self.name}/{asked.kind}",
            instruction=asked.text,
            tools=tuple(tool.name for tool in TOOLS),
            data={"question": asked._asdict(), "library": library().index.digest},
            limits=Limits(turns=10, new_tokens=512, context=2048),
            provenance="numpy documentation",
        )

    def open(self, task: Task, *, seed: int, runtime: SandboxRuntime | None = None) -> Reading:
        return _reading(task, [])

    def restore(self, task: Task, saved: bytes, *, runtime: SandboxRuntime | None = None) -> Reading:
        return _reading(task, json.loads(saved))

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        asked = Question(**task.data["question"])
        given = response_of(final)
        if given != asked.response:
            return Result(status="fail", detail=f"answered {given[:60]!r}, not {asked.response!r}")
        if asked.cited not in final["opened"]:
            return Result(status="fail", detail=f"never opened entry {asked.cited}, which holds the answer")
        return Result(status="pass", score=1.0)

    def observe(self, task: Task, final: Mapping[str, Any], seed: int, *, runtime: SandboxRuntime | None = None) -> Any:
        """The answer, and whether the entry that holds it was opened."""
        return [response_of(final), task.data["question"]["cited"] in final["opened"]]

    def gold(self, task: Task) -> ScriptedPolicy:
        return self.demonstrate(task, Style(effort="max", seed=0))

    def demonstrate(self, task: Task, style: Style) -> ScriptedPolicy:
        rng = rng_of(task.id, "demonstrate", style.effort, style.seed)
        asked = Question(**task.data["question"])
        return demonstration(asked, style.effort, rng, slips=rng.random() < style.slip)

    def hacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        return hacks(Question(**task.data["question"]))

    def phrases(self) -> Sequence[str]:
        return [_NOTHING, _NO_ENTRY, "See also: ", "numpy."]


class Reading:
    """A reader at the library; it remembers which entries were opened."""

    def __init__(self, opened: Sequence[str]) -> None:
        self._opened = list(opened)

    def call(self, call: Call) -> Observation:
        refused = refusal(call, TOOLS)
        if refused is not None:
            return Observation(text=refused)
        if call.tool == "search":
            hits = library().index.search(call.arguments["query"], HITS)
            return Observation(text="\n".join(f"{hit.id} {hit.title}" for hit in hits) or _NOTHING)
        return self._open(call.arguments["id"])

    def final(self, response: str | None) -> Mapping[str, Any]:
        return {"response": response, "opened": self._opened}

    def save(self) -> bytes:
        return json.dumps(self._opened).encode()

    def close(self) -> None:
        pass

    def _open(self, id: str) -> Observation:
        try:
            document = library().index.open(id)
        except KeyError:
            return Observation(text=_NO_ENTRY)
        if id not in self._opened:
            self._opened.append(id)
        return Observation(text=document.text)


def _reading(task: Task, opened: Sequence[str]) -> Reading:
    """Raises UserError where this machine's library is not the one that the task was made from."""
    if library().index.digest != task.data["library"]:
        raise UserError(f"task {task.id} was made from another version of NumPy's documentation; generate it anew")
    return Reading(opened)

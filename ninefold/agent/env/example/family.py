"""The family: generator and verifier."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ninefold.agent.env.draw import draw
from ninefold.core.protocols import SandboxRuntime, ScriptedPolicy, Style
from ninefold.core.types import Domain, Limits, Result, Split, Task

from . import policies
from .errand import BOXES, END, INTO, PUT, THINGS, WHERE, Errand
from .world import TOOLS, Boxes


class Example:
    """The instruction names the box (level 0), or a thing that lies in it (level 1)."""

    name = "example"
    domain: Domain = "agents"
    levels = 2
    tools = TOOLS
    isolated = False
    """True for a family that runs what the policy wrote: its worlds and its verifier then get a sandbox runtime."""

    def generate(self, split: Split, level: int, seed: int) -> Task:
        """A task of the split: content is drawn until its key falls into it."""
        names = (self.name, level, seed)
        errand = draw(lambda rng: Errand.draw(rng, level), lambda e: e.key, split=split, names=names)
        return Task(
            id=f"{self.name}/{split}/{level}/{seed}",
            domain=self.domain,
            family=self.name,
            split=split,
            level=level,
            seed=seed,
            shape=f"{self.name}/{level}",
            instruction=errand.text,
            tools=tuple(tool.name for tool in TOOLS),
            data={"places": dict(errand.places), "thing": errand.thing, "neighbour": errand.neighbour},
            limits=Limits(turns=8, new_tokens=256),
        )

    def open(self, task: Task, *, seed: int, runtime: SandboxRuntime | None = None) -> Boxes:
        return Boxes(task.data["places"])

    def restore(self, task: Task, saved: bytes, *, runtime: SandboxRuntime | None = None) -> Boxes:
        return Boxes(json.loads(saved))

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        """Everything must lie where it did, but the thing, which must lie where it belongs."""
        places, thing = task.data["places"], task.data["thing"]
        if final.get("places") == {**places, thing: places[task.data["neighbour"]]}:
            return Result(status="pass", score=1.0)
        return Result(status="fail", detail=f"{thing} is not where it belongs, or something else was moved")

    def observe(self, task: Task, final: Mapping[str, Any], seed: int, *, runtime: SandboxRuntime | None = None) -> Any:
        """What the final state comes to: two that differ in nothing else are equally right (see `ninefold hack run`)."""
        return final.get("places")

    def gold(self, task: Task) -> ScriptedPolicy:
        return policies.gold(task)

    def demonstrate(self, task: Task, style: Style) -> ScriptedPolicy:
        return policies.demonstrate(task, style)

    def hacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        return policies.hacks(task)

    def phrases(self) -> Sequence[str]:
        """What a small tokenizer shall know as one token."""
        return (PUT, INTO, WHERE, END, *BOXES, *THINGS, "moved", "nothing", "done")

"""Imported tasks of tau2-bench, judged by its own criteria as far as rules decide them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ninefold.agent.env.declared import tools_of
from ninefold.agent.env.quiz import response_of
from ninefold.agent.env.script import Script, Steps, answers
from ninefold.agent.env.tau2 import checkout
from ninefold.agent.env.tau2.world import Tau2World
from ninefold.core.errors import UserError
from ninefold.core.protocols import Move, SandboxRuntime, ScriptedPolicy, Style, Tool
from ninefold.core.types import Call, Domain, Result, Split, Task


class Tau2:
    """The agent reads the policy and the customer's whole case at once, as in tau2's solo mode; there is no simulated user.

    DEVIATION from tau2, where a model plays the customer: here no model is needed, and the case is told beforehand.
    """

    name = "tau2"
    domain: Domain = "agents"
    levels = 1
    tools: tuple[Tool, ...] = ()
    isolated = False

    def lacks(self, level: int = 0) -> str | None:
        """What this machine has not, in a sentence; None where it can run."""
        return checkout.lacks()

    def brings(self, task: Task) -> tuple[Tool, ...]:
        """The tools of the task's domain, the customer's own included."""
        return tools_of(task.data["tools"])

    def generate(self, split: Split, level: int, seed: int) -> Task:
        raise UserError("tau2's tasks are imported from its checkout (`ninefold tau2 import`), not generated")

    def open(self, task: Task, *, seed: int, runtime: SandboxRuntime | None = None) -> Tau2World:
        return Tau2World(task)

    def restore(self, task: Task, saved: bytes, *, runtime: SandboxRuntime | None = None) -> Tau2World:
        return Tau2World(task, json.loads(saved))

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        """Every part of the task's reward basis must hold, and something must be answered.

        A task whose reference changes nothing is passed by whoever answers and changes nothing: tau2's own rule.
        """
        if not response_of(final):
            return Result(status="fail", detail="nothing was answered")
        said, gold = response_of(final).lower().replace(",", ""), task.data["gold"]
        parts = {
            "DB": (final.get("agent"), final.get("user")) == (gold["agent"], gold["user"]),
            "ENV_ASSERTION": all(final.get("assertions", ())),
            "ACTION": all(final.get("actions", ())),
            "COMMUNICATE": all(text.lower() in said for text in task.data["communicate"]),
        }
        failed = [part for part in task.data["basis"] if not parts.get(part, True)]
        if failed:
            return Result(status="fail", detail=f"not met: {', '.join(failed)}")
        return Result(status="pass", score=1.0)

    def gold(self, task: Task) -> ScriptedPolicy:
        """The reference actions, then what has to be communicated."""
        return Script(_acts(task.data["actions"], " ".join(["Done.", *task.data["communicate"]])))

    def demonstrate(self, task: Task, style: Style) -> ScriptedPolicy:
        return self.gold(task)

    def hacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        claim = " ".join(["Done.", *task.data["communicate"]])
        return {
            "acts and says nothing": Script(_acts(task.data["actions"], "")),
            "answers nothing": answers(" \n"),
            **({"claims to be done": answers(claim)} if task.data["gold"]["changes"] else {}),
        }

    def phrases(self) -> Sequence[str]:
        return ()


def _acts(actions: Sequence[Mapping[str, Any]], response: str) -> Steps:
    for action in actions:
        yield Move(calls=(Call(tool=action["name"], arguments=action["arguments"]),))
    yield Move(response=response)

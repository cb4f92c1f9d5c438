"""Sub-agents: a conversation of its own in the same world, of which only the last message comes back.

A task offers them by the tools `agent` and `swarm`. What a sub-agent says is an observation: its trajectory is kept with that
of the agent that began it, and nothing of it is learned (report, [K2.5]: sub-agents are frozen). Its tokens count as the
agent's own [ours].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ninefold.core.protocols import Tool
from ninefold.core.seeds import seed_of
from ninefold.core.types import Call, Slot

AGENT = Tool(
    name="agent",
    description="Give a sub-agent a task of its own; its last message comes back.",
    parameters={"prompt": "string"},
    optional={"context": "string", "description": "string", "kind": "string", "tasks": "array"},
)
SWARM = Tool(
    name="swarm",
    description="Give several sub-agents a task each, made from a template that holds {{item}}.",
    parameters={"template": "string", "items": "array"},
    optional={"description": "string", "kind": "string"},
)
TOOLS = (AGENT, SWARM)
ITEM = "{{item}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    """What sub-agents may do, and what comes back of them."""

    blocked: tuple[str, ...] = ()
    """Tools that they lack in any case, beside those that begin further ones: nobody delegates twice."""
    turns: int = 0
    """Most messages of one; 0 means as many as the task allows."""
    most: int = 128
    """Sub-agents of one call."""
    chars: int = 0
    """Of the last message that come back; 0 means all."""
    least: int = 0
    """Characters below which a last message is asked for once more."""
    more: str = "That is very short. Report in full what you did and found."
    """What is said then."""

    def tools(self, offered: tuple[str, ...]) -> tuple[str, ...]:
        """The tools of a sub-agent, of those that its task offers."""
        lacks = {*self.blocked, *(tool.name for tool in TOOLS)}
        return tuple(name for name in offered if name not in lacks)

    def slot(self, slot: Slot, prompt: str, *, group: str, index: int, new_tokens: int) -> Slot:
        """The attempt of a sub-agent: the task of `slot` with another instruction, fewer tools and turns, and `new_tokens` that
        may be generated."""
        limits = slot.task.limits
        task = replace(
            slot.task,
            id=f"{slot.task.id}@{group}/{index}",
            instruction=prompt,
            pictures=(),
            tools=self.tools(slot.task.tools),
            limits=replace(limits, turns=min(self.turns or limits.turns, limits.turns), new_tokens=new_tokens),
        )
        return Slot(task=task, effort=slot.effort, group=group, index=index, seed=seed_of(slot.seed, group, index))

    def shown(self, report: str) -> str:
        """What comes back of a last message."""
        return report[: self.chars] if self.chars else report


def prompts(call: Call) -> list[str]:
    """What each sub-agent of a call is told; [] where it tells nobody anything."""
    given = call.arguments
    if call.tool == SWARM.name:
        return [given["template"].replace(ITEM, str(item)) for item in given["items"]]
    single = [_told({"goal": given.get("prompt", ""), "context": given.get("context", "")})] if given.get("prompt") else []
    return single + [_told(task) for task in given.get("tasks", ()) if isinstance(task, Mapping) and task.get("goal")]


def _told(task: Mapping[str, Any]) -> str:
    context = task.get("context")
    return f"{task['goal']}\n\n{context}" if context else str(task["goal"])

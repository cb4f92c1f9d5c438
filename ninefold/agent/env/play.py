"""Play a scripted policy against a task, without any model or chat format."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ninefold.agent.harness.delegation import TOOLS as DELEGATING
from ninefold.agent.harness.delegation import prompts
from ninefold.core.errors import SandboxError
from ninefold.core.protocols import Family, Move, Observation, SandboxRuntime, ScriptedPolicy
from ninefold.core.types import Call, Result, Task
from ninefold.sandbox.runtime import open_runtime


def play(
    family: Family, task: Task, policy: ScriptedPolicy, seed: int = 0, runtime: SandboxRuntime | None = None
) -> tuple[Result, Mapping[str, Any]]:
    """(verdict, final state) of one episode; a broken sandbox makes it invalid.

    Ends at the first move without calls, or when the task's turns are used up.
    """
    try:
        final = final_state(family, task, policy, seed, runtime)
        return family.verify(task, final, runtime=runtime), final
    except SandboxError as error:
        return Result(status="invalid", detail=str(error)), {}


def final_state(
    family: Family, task: Task, policy: ScriptedPolicy, seed: int, runtime: SandboxRuntime | None
) -> Mapping[str, Any]:
    """What the verifier would be shown, as JSON. Raises SandboxError."""
    world = family.open(task, seed=seed, runtime=runtime)
    try:
        observations: list[Observation] = []
        response: str | None = None
        for _ in range(task.limits.turns):
            move = policy.move(observations)
            response = move.response
            if not move.calls:
                break
            observations = [execute(world.call, call, policy, task.limits.turns) for call in move.calls]
            if any(observation.done for observation in observations):
                break
        # A verifier in another process sees the state as JSON: so does this one.
        return json.loads(json.dumps(world.final(response)))
    finally:
        world.close()


def execute(act: Callable[[Call], Observation], call: Call, policy: ScriptedPolicy, turns: int) -> Observation:
    """What a call returns. Where it begins sub-agents, `policy` makes their moves, at most `turns` each."""
    if all(call.tool != tool.name for tool in DELEGATING):
        return act(call)
    reports: list[str] = []
    for _ in prompts(call):
        observations: list[Observation] = []
        move = Move()
        for _ in range(turns):
            move = policy.move(observations)
            if not move.calls:
                break
            observations = [act(call) for call in move.calls]
        reports.append(move.response or "")
    return Observation(text="\n\n".join(reports))


@contextmanager
def runtime_for(family: Family) -> Iterator[SandboxRuntime | None]:
    """The sandbox runtime that the family needs; None where it needs none. Raises SandboxUnavailable."""
    if not family.isolated:
        yield None
        return
    runtime = open_runtime("namespace")
    try:
        runtime.check()
        yield runtime
    finally:
        runtime.close()

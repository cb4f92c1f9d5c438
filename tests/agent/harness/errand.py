"""A family over the executor's operations: what `wanted` says has to stand in a file in the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ninefold.agent.env.script import Script, Steps, answers
from ninefold.agent.env.workspace import Workspace
from ninefold.agent.harness.executor import OPERATIONS, Executor, ExecutorConfig
from ninefold.core.protocols import Move, SandboxRuntime, ScriptedPolicy, Style, Tool
from ninefold.core.types import Call, Domain, Limits, Result, Split, Task

FILES = {"notes.txt": "alpha\nbeta\n", "src/main.py": "def f():\n    return 1\n", "AGENTS.md": "Be exact."}


class Errand:
    """Write the notes' second line into done.txt."""

    name = "errand"
    domain: Domain = "coding"
    levels = 1
    tools: tuple[Tool, ...] = tuple(OPERATIONS.values())
    isolated = True

    def __init__(self, seconds: float = 2.0) -> None:
        self.config = ExecutorConfig(seconds=seconds)

    def generate(self, split: Split, level: int, seed: int) -> Task:
        return Task(
            id=f"errand/{split}/{level}/{seed}",
            domain=self.domain,
            family=self.name,
            split=split,
            level=level,
            seed=seed,
            shape="errand",
            instruction="Write the second line of notes.txt into done.txt.",
            tools=tuple(OPERATIONS),
            files=FILES,
            limits=Limits(turns=300, new_tokens=100_000, context=200_000),
        )

    def open(self, task: Task, *, seed: int, runtime: SandboxRuntime | None = None) -> Workspace:
        assert runtime is not None
        return Workspace(Executor(runtime.create(task.files), config=self.config))

    def restore(self, task: Task, saved: bytes, *, runtime: SandboxRuntime | None = None) -> Workspace:
        assert runtime is not None
        return Workspace(Executor.restore(saved, runtime=runtime, config=self.config))

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        done = final["files"].get("done.txt", "").strip()
        return Result(status="pass", score=1.0) if done == "beta" else Result(status="fail", detail=done)

    def gold(self, task: Task) -> ScriptedPolicy:
        def steps() -> Steps:
            seen = yield Move(think="look", calls=(Call(tool="read", arguments={"path": "notes.txt"}),))
            assert "beta" in seen[0].text
            yield Move(calls=(Call(tool="write", arguments={"path": "done.txt", "text": "beta\n"}),))
            yield Move(response="done")

        return Script(steps())

    def demonstrate(self, task: Task, style: Style) -> ScriptedPolicy:
        return self.gold(task)

    def hacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        return {"said": answers("beta")}

    def phrases(self) -> Sequence[str]:
        return []

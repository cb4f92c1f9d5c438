"""The world: an oracle, a public verifier, a ledger, and from level 2 on a working directory to think in.

The oracle and both verifiers live outside the sandbox, which holds the task's files and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ninefold.agent.env.aet.kind import Kind, assess
from ninefold.agent.env.aet.ledger import PENALTY, Entry
from ninefold.agent.env.calls import refusal
from ninefold.agent.harness.executor import OPERATIONS, Executor, ExecutorConfig
from ninefold.core.packed import as_bytes, pack, unpack
from ninefold.core.protocols import Observation, SandboxRuntime, Tool
from ninefold.core.seeds import rng_of
from ninefold.core.types import Call, Task

OWN: tuple[Tool, ...] = (
    Tool(name="probe", description="Ask the oracle; the number of questions is limited.", parameters={"input": "string"}),
    Tool(
        name="submit",
        description=f"Hand in an answer; the last one counts, and one that brings no progress costs {PENALTY}.",
        parameters={"answer": "string"},
    ),
)
OPERATED = ("read", "write", "grep", "shell")
"""Operations of the executor that levels with a working directory offer."""
TOOLS: tuple[Tool, ...] = (*OWN, *(OPERATIONS[name] for name in OPERATED))


class AetWorld:
    """What is left: the ledger, and how much was asked."""

    def __init__(self, task: Task, kind: Kind, runtime: SandboxRuntime, *, seed: int) -> None:
        self._task, self._kind, self._runtime, self._seed = task, kind, runtime, seed
        self._calls = 0
        self._probes = 0
        self._ledger: list[Entry] = []
        self._executor: Executor | None = None

    def call(self, call: Call) -> Observation:
        """Ask, submit, or use the working directory; every call counts, whatever comes of it."""
        if self._calls >= self._task.data["calls"]:
            return Observation(text="error: no calls are left")
        self._calls += 1
        if call.error is None and call.tool in OPERATED and call.tool in self._task.tools:
            return self._opened().call(call)
        refused = refusal(call, [tool for tool in OWN if tool.name in self._task.tools])
        if refused is not None:
            return Observation(text=refused)
        if call.tool == "probe":
            return Observation(text=self._probe(call.arguments["input"]))
        return Observation(text=self._submit(call.arguments["answer"]))

    def final(self, response: str | None) -> Mapping[str, Any]:
        """The last response, the ledger, and what was used."""
        ledger = [asdict(entry) for entry in self._ledger]
        return {"response": response, "ledger": ledger, "probes": self._probes, "calls": self._calls}

    def save(self) -> bytes:
        layer = b"" if self._executor is None else self._executor.save()
        return pack({**self.final(None), "seed": self._seed}, {"executor": as_bytes(layer)})

    @staticmethod
    def restore(task: Task, kind: Kind, runtime: SandboxRuntime, saved: bytes) -> AetWorld:
        """The inverse of `save`."""
        record, arrays = unpack(saved)
        world = AetWorld(task, kind, runtime, seed=record["seed"])
        world._calls, world._probes = record["calls"], record["probes"]
        world._ledger = [Entry(**entry) for entry in record["ledger"]]
        if layer := arrays["executor"].tobytes():
            world._executor = Executor.restore(layer, runtime=runtime, config=_config(task))
        return world

    def close(self) -> None:
        if self._executor is not None:
            self._executor.close()
            self._executor = None

    def _probe(self, asked: str) -> str:
        left = self._task.data["probes"] - self._probes
        if left <= 0:
            return "error: no probes are left"
        self._probes += 1
        noise = rng_of("noise", self._task.id, self._seed, self._probes)
        return self._kind.probe(self._task.data, asked, noise)

    def _submit(self, answer: str) -> str:
        """What the public verifier says."""
        left = self._task.data["submissions"] - len(self._ledger)
        if left <= 0:
            return "error: no submissions are left"
        found = assess(self._kind, self._task.data, answer, "visible", self._runtime)
        entry = Entry(call=self._calls, answer=answer, right=found.right, scenarios=found.scenarios)
        self._ledger.append(entry)
        told = f"{found.right} of {found.scenarios} visible"
        return " . ".join([told, *([found.wrong] if found.wrong else []), f"{left - 1} left"])

    def _opened(self) -> Executor:
        if self._executor is None:
            self._executor = Executor(self._runtime.create(self._task.files), config=_config(self._task))
        return self._executor


def _config(task: Task) -> ExecutorConfig:
    return ExecutorConfig(seconds=task.limits.tool_seconds, output_bytes=65_536)


def offered(level: int, probes: int) -> Sequence[str]:
    """Names of the tools of a task."""
    return [*(["probe"] if probes else []), "submit", *(OPERATED if level > 1 else ())]

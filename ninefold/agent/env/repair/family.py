"""The repair family: generator and verifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from random import Random
from typing import Any

from ninefold.agent.env import candidate
from ninefold.agent.env.draw import draw
from ninefold.agent.env.repair import policies
from ninefold.agent.env.repair.defect import Defect, run
from ninefold.agent.env.repair.programs import LEVELS, Arguments
from ninefold.agent.env.repair.world import TOOLS, RepairWorld
from ninefold.core.errors import SandboxError, SandboxUnavailable
from ninefold.core.protocols import SandboxRuntime, ScriptedPolicy, Style
from ninefold.core.seeds import rng_of
from ninefold.core.types import Domain, Limits, Result, Split, Task

FURTHER = 256
"""Calls that the verifier draws itself: so many that each of the thirty numbers that an argument may be is among them."""


class Repair:
    """One line (level 0), one function (1), or two files of which the test names one (2)."""

    name = "repair"
    domain: Domain = "coding"
    levels = len(LEVELS)
    tools = TOOLS
    isolated = True

    def generate(self, split: Split, level: int, seed: int) -> Task:
        """A task of the split; its key is the right and the broken sources."""
        defect = draw(lambda rng: Defect.draw(rng, level), lambda d: d.key, split=split, names=("repair", level, seed))
        test = f"test_{defect.module}.py"
        return Task(
            id=f"repair/{split}/{level}/{seed}",
            domain="coding",
            family="repair",
            split=split,
            level=level,
            seed=seed,
            shape=f"repair/{defect.module}",
            instruction=f"Fix {' or '.join(defect.right)} : {test} fails .",
            tools=tuple(tool.name for tool in TOOLS),
            files={**defect.broken, test: defect.test},
            data={
                "right": dict(defect.right),
                "function": defect.function,
                "test": test,
                "shown": [list(pair) for pair in defect.shown],
                "hidden": [list(pair) for pair in defect.hidden],
            },
            limits=Limits(turns=12, new_tokens=400 * (level + 1), context=1024 * (level + 1)),
        )

    def open(self, task: Task, *, seed: int, runtime: SandboxRuntime | None = None) -> RepairWorld:
        return self.restore(task, b"", runtime=runtime)

    def restore(self, task: Task, saved: bytes, *, runtime: SandboxRuntime | None = None) -> RepairWorld:
        if runtime is None:
            raise SandboxUnavailable("repair tasks execute code; give them a sandbox runtime")
        return RepairWorld(task, runtime, saved)

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        """Run the mended files, and only those, in a fresh sandbox against the hidden calls and many further ones.

        Nothing else of the working directory is looked at, so tests and planted files change nothing.
        """
        files = _handed_in(task, final)
        if files is None:
            return Result(status="fail", detail="a file to be mended is missing")
        if files == {path: task.files[path] for path in files}:
            return Result(status="fail", detail="nothing was changed")
        if runtime is None:
            return Result(status="invalid", detail="no sandbox runtime to judge in")
        module = PurePosixPath(next(iter(files))).stem
        calls, outputs = _calls(task)
        try:
            report = candidate.results(runtime, files, module, task.data["function"], calls)
        except SandboxError as error:
            return Result(status="invalid", detail=str(error))
        if candidate.agree(report, outputs):
            return Result(status="pass", score=1.0)
        return Result(status="fail", detail="the hidden test fails")

    def observe(self, task: Task, final: Mapping[str, Any], seed: int, *, runtime: SandboxRuntime | None = None) -> Any:
        """What the mended function returns for other arguments."""
        files = _handed_in(task, final)
        if files is None or runtime is None:
            return files
        module, rng = PurePosixPath(next(iter(files))).stem, rng_of("observe", task.id, seed)
        return candidate.results(runtime, files, module, task.data["function"], _drawn(task, rng, 12))

    def gold(self, task: Task) -> ScriptedPolicy:
        return policies.gold(task)

    def demonstrate(self, task: Task, style: Style) -> ScriptedPolicy:
        return policies.demonstrate(task, style)

    def hacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        return policies.hacks(task)

    def phrases(self) -> Sequence[str]:
        return ("Fix ", " fails .", "def f(x): return ", "f.py", "test_f.py", "passed", "written", "done", " is ", ", not ")


def _calls(task: Task) -> tuple[list[Arguments], list[Any]]:
    """Calls that judge, and what the right sources return: the hidden ones, and enough to meet each of their branches."""
    hidden: list[tuple[Arguments, Any]] = task.data["hidden"]
    further = _drawn(task, rng_of("further calls", task.id), FURTHER)
    outputs = [output for _, output in hidden] + run(task.data["right"], task.data["function"], further)
    return [call for call, _ in hidden] + further, outputs


def _drawn(task: Task, rng: Random, count: int) -> list[Arguments]:
    program = next(program for program in LEVELS[task.level] if program.function == task.data["function"])
    return [program.arguments(rng) for _ in range(count)]


def _handed_in(task: Task, final: Mapping[str, Any]) -> dict[str, str] | None:
    """The files to be mended as they are in the final state; None where one is missing."""
    files = final.get("files")
    if not isinstance(files, Mapping):
        return None
    mended = {path: files.get(path) for path in task.data["right"]}
    return {path: text for path, text in mended.items() if isinstance(text, str)} if None not in mended.values() else None

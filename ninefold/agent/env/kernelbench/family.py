"""Imported problems of KernelBench, judged as kernels are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ninefold.agent.env.kernelbench import checkout
from ninefold.agent.env.kernelbench.answer import handed_in, timed
from ninefold.agent.env.kernelbench.hacks import hacks, writes
from ninefold.agent.env.kernels import Kernels, build, measure
from ninefold.agent.env.kernels.detectors import DETECTORS
from ninefold.agent.env.kernels.languages import shows
from ninefold.agent.env.kernels.score import EXPERT, score
from ninefold.agent.env.workspace import Workspace
from ninefold.agent.harness.executor import Executor, ExecutorConfig
from ninefold.agent.harness.executor.operations import OPERATIONS
from ninefold.core.errors import SandboxError, SandboxUnavailable, UserError
from ninefold.core.protocols import SandboxRuntime, ScriptedPolicy, Style, World
from ninefold.core.types import Domain, Result, Split, Task
from ninefold.sandbox.runtime import PACKAGES, packages

OFFERED = ("read", "write", "edit", "shell")
NOISE = 0.05
"""Most that a score differs from the true one: a module allocates, which is less steady than a kernel."""
NO_TORCH = f"sandboxes show no torch: set {PACKAGES} to the folder that it is installed in (…/site-packages)"
_CONFIG = ExecutorConfig(seconds=120.0, memory_mb=4096)


class KernelBench:
    """A module that returns what a problem's `Model` returns, in PyTorch or with C of its own, on one thread of a CPU.

    DEVIATION from KernelBench, which runs on GPUs at sizes for them, allows errors of 10⁻⁴ however small outputs are
    (`answer.TOLERANCE`), draws inputs as problems do alone, and reports speed-ups.
    """

    name = "kernelbench"
    domain: Domain = "coding"
    levels = max(checkout.LEVELS) + 1
    tools = tuple(OPERATIONS[name] for name in OFFERED)
    isolated = True
    score_noise = NOISE

    def lacks(self, level: int = 0) -> str | None:
        """A task carries its problem, so that none needs the checkout any more."""
        shown = packages()
        if shown is None or not (Path(shown) / "torch").is_dir():
            return NO_TORCH
        return Kernels().lacks()

    def generate(self, split: Split, level: int, seed: int) -> Task:
        raise UserError("KernelBench's problems are imported from its checkout (`ninefold kernelbench import`), not generated")

    def open(self, task: Task, *, seed: int, runtime: SandboxRuntime | None = None) -> World:
        return self.restore(task, b"", runtime=runtime)

    def restore(self, task: Task, saved: bytes, *, runtime: SandboxRuntime | None = None) -> World:
        if runtime is None:
            raise SandboxUnavailable("modules are run; give them a sandbox runtime")
        if saved:
            return Workspace(Executor.restore(saved, runtime=runtime, config=_CONFIG))
        return Workspace(Executor(runtime.create(task.files), config=_CONFIG))

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        """Run what was handed in beside the reference, compare every output, ask the detectors of the family `kernels`."""
        handed = handed_in(final)
        if isinstance(handed, str):
            return Result(status="fail", detail=handed)
        if runtime is None:
            return Result(status="invalid", detail="no sandbox runtime to judge in")
        try:
            if not shows(runtime, "torch"):
                return Result(status="invalid", detail=NO_TORCH)
            evidence = timed(runtime, task, handed)
        except (build.BuildFailed, measure.Lost) as error:
            return Result(status="fail", detail=str(error))
        except SandboxError as error:
            return Result(status="invalid", detail=str(error))
        for detect in DETECTORS.values():
            if (found := detect(evidence)) is not None:
                return found
        timing = evidence.timing
        earned = score(ratio=timing.ratio, expert=timing.expert, bound=evidence.bound)
        detail = f"{timing.ratio:.2f} times the reference's {timing.expert * 1e3:.3g} ms"
        return Result(status="pass", score=earned, detail=detail)

    def gold_score(self, task: Task) -> float:
        """The reference under the answer's name is as quick as itself."""
        return EXPERT

    def gold(self, task: Task) -> ScriptedPolicy:
        return writes(renamed(task.data["source"]))

    def demonstrate(self, task: Task, style: Style) -> ScriptedPolicy:
        return self.gold(task)

    def hacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        return hacks(task.data["source"])

    def phrases(self) -> Sequence[str]:
        return ()


def renamed(reference: str) -> str:
    """A problem's text with its `Model` as `ModelNew`."""
    return re.sub(r"\bModel\b", "ModelNew", reference)

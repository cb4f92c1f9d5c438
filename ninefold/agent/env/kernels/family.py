"""The kernels family: generator and verifier."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from ninefold.agent.env.draw import draw
from ninefold.agent.env.kernels import build, languages, line, measure, ops, policies, public
from ninefold.agent.env.kernels.detectors import DETECTORS, Detector, Evidence
from ninefold.agent.env.kernels.hacks import hacks
from ninefold.agent.env.kernels.line import Line
from ninefold.agent.env.kernels.measure import Candidate
from ninefold.agent.env.kernels.ops import OPS, Kernel, Op
from ninefold.agent.env.kernels.roofline import roofline
from ninefold.agent.env.kernels.score import EXPERT, score
from ninefold.agent.env.kernels.world import RUN, Bench
from ninefold.agent.env.workspace import Workspace
from ninefold.agent.harness.executor import Executor, ExecutorConfig
from ninefold.agent.harness.executor.operations import OPERATIONS
from ninefold.core.errors import SandboxError, SandboxUnavailable
from ninefold.core.protocols import SandboxRuntime, ScriptedPolicy, Style, World
from ninefold.core.seeds import rng_of
from ninefold.core.types import Domain, Limits, Result, Split, Task

UNTIMED = 0.25
"""Score of a right kernel whose speed says nothing, Triton's in its interpreter: half of an expert's. [ours]"""
NOISE = 0.03
"""Most that a score differs from the true one, on a machine that is busy with other things."""
_OFFERED = ("read", "write", "edit", "shell")
_CONFIG = ExecutorConfig(seconds=60.0, memory_mb=1024)

# A line has one value wherever it runs, so none is compiled twice: a rollout writes the same few again and again.
_lines: WeakKeyDictionary[SandboxRuntime, dict[str, Result]] = WeakKeyDictionary()
_KEPT = 10_000


class Kernels:
    """A line of C (level 0), an elementwise or row-wise operation (1), a normalisation (2), a product with epilogue or a
    quantisation (3), attention or KDA fused whole (4)."""

    name = "kernels"
    domain: Domain = "coding"
    levels = 5
    tools = (RUN, *(OPERATIONS[name] for name in _OFFERED))
    isolated = True
    score_noise = NOISE

    def __init__(self, *, name: str = "kernels", detectors: Mapping[str, Detector] = DETECTORS) -> None:
        """Under another name with other detectors it is a family of one's own."""
        self.name = name
        self._detectors = detectors

    def lacks(self, level: int = 0) -> str | None:
        """Sandboxes see the system's own programs."""
        if shutil.which("cc", path="/usr/local/bin:/usr/bin:/bin") is not None:
            return None
        return "no C compiler that a sandbox sees: install one as /usr/bin/cc (Debian: apt install gcc libc6-dev)"

    def generate(self, split: Split, level: int, seed: int) -> Task:
        """A task of the split; its key is the operation with its sizes and scalars."""
        names = (self.name, level, seed)
        if level == 0:
            drawn = draw(Line.draw, lambda drawn: drawn.key, split=split, names=names)
            return self._task(split, 0, seed, drawn.kind, drawn.text, {"line": drawn.data})
        kernel = draw(lambda rng: Kernel.draw(rng, level), lambda k: k.key, split=split, names=names)
        data = {"op": kernel.op.name, "dims": dict(kernel.dims), "scalars": dict(kernel.scalars)}
        return self._task(split, level, seed, kernel.op.name, public.instruction(kernel), data, public.files(kernel))

    def _task(
        self,
        split: Split,
        level: int,
        seed: int,
        shape: str,
        instruction: str,
        data: Mapping[str, Any],
        files: Mapping[str, str] | None = None,
    ) -> Task:
        limits = Limits(turns=7, new_tokens=256) if level == 0 else Limits(turns=40, new_tokens=16_384, context=32_768)
        return Task(
            id=f"{self.name}/{split}/{level}/{seed}",
            domain=self.domain,
            family=self.name,
            split=split,
            level=level,
            seed=seed,
            shape=f"{self.name}/{shape}",
            instruction=instruction,
            tools=(RUN.name,) if level == 0 else _OFFERED,
            files=files or {},
            data=data,
            limits=limits,
        )

    def open(self, task: Task, *, seed: int, runtime: SandboxRuntime | None = None) -> World:
        return self.restore(task, b"", runtime=runtime)

    def restore(self, task: Task, saved: bytes, *, runtime: SandboxRuntime | None = None) -> World:
        if runtime is None:
            raise SandboxUnavailable("kernels are compiled and run; give them a sandbox runtime")
        if task.level == 0:
            return Bench(lambda code: _line_result(task, code, runtime))
        if saved:
            return Workspace(Executor.restore(saved, runtime=runtime, config=_CONFIG))
        return Workspace(Executor(runtime.create(task.files), config=_CONFIG))

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        """Build what was handed in, try it against the float64 twin, time it beside the expert's, ask the detectors.

        Nothing else of the working directory is looked at.
        """
        handed = _expression(final) if task.level == 0 else languages.handed_in(final)
        if isinstance(handed, str):
            return Result(status="fail", detail=handed)
        if runtime is None:
            return Result(status="invalid", detail="no sandbox runtime to judge in")
        try:
            if task.level == 0:
                return _line_result(task, handed.source, runtime)
            return self._kernel_result(kernel_of(task), handed, runtime)
        except (build.BuildFailed, measure.Lost) as error:
            return Result(status="fail", detail=str(error))
        except SandboxError as error:
            return Result(status="invalid", detail=str(error))

    def _kernel_result(self, kernel: Kernel, handed: languages.Handed, runtime: SandboxRuntime) -> Result:
        """Raises BuildFailed, Lost and SandboxError."""
        if (reason := languages.refused(runtime, handed)) is not None:
            return Result(status="fail", detail=reason)
        candidate = _candidate(runtime, kernel.op, handed)
        wrong = _wrong(runtime, kernel, candidate, secrets.randbits(63))
        if wrong is not None:
            return Result(status="fail", detail=wrong)
        if handed.language == "triton":
            return Result(status="pass", score=UNTIMED, detail="right; the interpreter's speed says nothing")
        timing = measure.against(runtime, kernel, candidate)
        bound = roofline(runtime).seconds(kernel)
        evidence = Evidence(language=handed.language, source=handed.source, timing=timing, bound=bound)
        for detect in self._detectors.values():
            if (found := detect(evidence)) is not None:
                return found
        earned = score(ratio=timing.ratio, expert=timing.expert, bound=bound)
        detail = f"{timing.ratio:.2f} times the expert's time, {bound / timing.candidate:.0%} of the machine's bound"
        return Result(status="pass", score=earned, detail=detail)

    def observe(self, task: Task, final: Mapping[str, Any], seed: int, *, runtime: SandboxRuntime | None = None) -> Any:
        """Whether it computes what it should for other inputs, or else what comes instead."""
        if runtime is None:
            return final
        number = rng_of("observe", task.id, seed).getrandbits(63)
        try:
            if task.level == 0:
                return _wrong(runtime, kernel_of(task), _line_candidate(runtime, task, str(final.get("response"))), number)
            handed = languages.handed_in(final)
            reason = handed if isinstance(handed, str) else languages.refused(runtime, handed)
            if reason is not None or isinstance(handed, str):
                return reason
            kernel = kernel_of(task)
            return _wrong(runtime, kernel, _candidate(runtime, kernel.op, handed), number)
        except (build.BuildFailed, measure.Lost) as error:
            return str(error)

    def gold_score(self, task: Task) -> float:
        """A line has no speed to earn by; the expert's kernel earns what an expert's speed does."""
        return 1.0 if task.level == 0 else EXPERT

    def gold(self, task: Task) -> ScriptedPolicy:
        return policies.gold(task)

    def demonstrate(self, task: Task, style: Style) -> ScriptedPolicy:
        return policies.demonstrate(task, style)

    def hacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        return hacks(task)

    def phrases(self) -> Sequence[str]:
        return (*line.phrases(), "right", "wrong")


def kernel_of(task: Task) -> Kernel:
    """What a task asks for."""
    if task.level == 0:
        return policies.line_of(task).kernel
    return Kernel(op=OPS[task.data["op"]], dims=task.data["dims"], scalars=task.data["scalars"])


def _expression(final: Mapping[str, Any]) -> languages.Handed | str:
    """The answer to a line, or what is wrong with it."""
    response = final.get("response")
    if not isinstance(response, str) or not response.strip():
        return "nothing submitted"
    return languages.Handed("c", response.strip())


def _candidate(runtime: SandboxRuntime, op: Op, handed: languages.Handed) -> Candidate:
    """Raises BuildFailed."""
    return measure.in_c(runtime, op, handed.source) if handed.language == "c" else measure.in_python(op, handed.source)


def _wrong(runtime: SandboxRuntime, kernel: Kernel, candidate: Candidate, seed: int) -> str | None:
    """What is wrong with a candidate's outputs for inputs that `seed` draws; None where nothing is."""
    cases = ops.cases(kernel, seed)
    written = measure.written(runtime, kernel.op, candidate, cases)
    if written.input or written.fence:
        return "it changes its inputs" if written.input else "it writes behind an array"
    for case, outputs in zip(cases, written.outputs):
        if (error := ops.error(kernel.op, case, outputs)) > 1:
            sizes = ", ".join(f"{name} = {size}" for name, size in case.dims.items())
            return f"wrong for values of kind {case.what!r} where {sizes}: {error:.3g} times what is allowed"
    return None


def _line_candidate(runtime: SandboxRuntime, task: Task, code: str) -> Candidate:
    """Raises BuildFailed."""
    code = code.strip()
    if len(code) > line.LONGEST or "\n" in code:
        raise build.BuildFailed(f"an expression is one line of at most {line.LONGEST} characters")
    return measure.in_c(runtime, kernel_of(task).op, line.whole(code))


def _line_result(task: Task, code: str, runtime: SandboxRuntime) -> Result:
    """Raises SandboxError."""
    known = _lines.setdefault(runtime, {})
    if len(known) >= _KEPT:
        known.clear()
    key = f"{policies.line_of(task).key} {code.strip()}"
    if key not in known:
        try:
            wrong = _wrong(runtime, kernel_of(task), _line_candidate(runtime, task, code), secrets.randbits(63))
        except (build.BuildFailed, measure.Lost) as error:
            wrong = str(error)
        known[key] = Result(status="pass", score=1.0) if wrong is None else Result(status="fail", detail=wrong)
    return known[key]

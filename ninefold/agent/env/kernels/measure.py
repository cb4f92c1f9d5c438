"""Running a kernel in the sandbox: what it writes for given inputs, and its time beside the expert's."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ninefold.agent.env.kernels import build
from ninefold.agent.env.kernels.driver import quickest
from ninefold.agent.env.kernels.ops import Argument, Case, Kernel, Op, usual_case
from ninefold.core.errors import SandboxError
from ninefold.core.protocols import ExecLimits, Sandbox, SandboxRuntime

ROUNDS = (40, 80)
"""Fewest and most timed rounds."""
AGREEMENT = 0.015
"""Logarithm of the ratio by which both halves of the rounds may differ at the end."""
FEW = "few changed"
"""The kind of round that shows caches and does not count: nearly all of its work was done in the round before."""
CPU_SECONDS = 5.0
"""Most that one answer of a runner may compute."""
SECONDS = 60.0
"""Wall time of a run, on a machine that may be busy with other things."""
_C_MEMORY_MB, _PYTHON_MEMORY_MB = 512, 4096
"""Address space of a runner; NumPy and PyTorch map far more than they touch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What was handed in, ready to run."""

    files: Mapping[str, bytes]
    """Of the working directory."""
    command: tuple[str, ...]
    memory_mb: int = _C_MEMORY_MB


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One timed window of each side, on the same values."""

    kind: str
    """fresh (new places and values), same place (new values), or few changed."""
    expert: int
    """CPU nanoseconds."""
    expert_aside: int
    """Between this window and its neighbours, before and after: what a process does then belongs into a window."""
    candidate: int
    candidate_aside: int
    error: float
    """Largest difference between their outputs, as a multiple of what is allowed."""
    input: bool
    """An input was changed."""
    fence: bool
    """Bytes behind an array were changed."""
    stale: bool
    """A wrong output is, byte for byte, one of the round before."""
    threads: int
    """Of the candidate's process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """All rounds."""

    rounds: tuple[Round, ...]
    calls: int
    """In each window."""

    @property
    def candidate(self) -> float:
        """Seconds of a call of the candidate."""
        return self._seconds([r.candidate + r.candidate_aside for r in self.rounds if r.kind != FEW])

    @property
    def expert(self) -> float:
        """Seconds of a call of the expert."""
        return self._seconds([r.expert + r.expert_aside for r in self.rounds if r.kind != FEW])

    @property
    def ratio(self) -> float:
        """Candidate's time over the expert's."""
        return self.candidate / self.expert

    def _seconds(self, windows: Sequence[float]) -> float:
        return quickest(windows) / self.calls * 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a candidate wrote when it was tried."""

    outputs: tuple[list[bytes], ...]
    """For each case, each output."""
    input: bool
    """An input was changed."""
    fence: bool
    """Bytes behind an array were changed."""


class Lost(Exception):
    """The candidate's process died or did not answer."""


def in_c(runtime: SandboxRuntime, op: Op, source: str) -> Candidate:
    """Raises BuildFailed."""
    files = {
        "runner": build.program(runtime, {"runner.c": build.inside("runner.c")}),
        "kernel.so": build.library(runtime, {f"{op.name}.c": source, "shim.c": op.shim}),
    }
    return Candidate(files=files, command=("./runner", "./kernel.so"))


def in_python(op: Op, source: str) -> Candidate:
    """A module with a function of the operation's name, which gets NumPy arrays."""
    arrays = [[a.name, list(a.shape), a.width, a.output] for a in op.arrays]
    layout = json.dumps({"op": op.name, "arrays": arrays, "dims": list(op.dims), "scalars": list(op.scalars)})
    command = ("python3", "-I", "-B", "-c", _script("runner.py"), layout)
    return Candidate(files={"kernel.py": source.encode()}, command=command, memory_mb=_PYTHON_MEMORY_MB)


def written(runtime: SandboxRuntime, op: Op, candidate: Candidate, cases: Sequence[Case]) -> Written:
    """Try the candidate. Raises Lost and SandboxError."""
    plan = {
        **_limits(candidate),
        "candidate": candidate.command,
        "outputs": [a.output for a in op.arrays],
        "cases": [
            {
                "dims": list(case.dims.values()),
                "scalars": list(case.scalars.values()),
                "arrays": [base64.b64encode(_bytes(a, case)).decode() for a in op.arrays],
            }
            for case in cases
        ],
    }
    with closing(_sandbox(runtime, candidate.files)) as sandbox:
        told = _drive(sandbox, plan)
    outputs = tuple([base64.b64decode(text) for text in case] for case in told["outputs"])
    return Written(outputs=outputs, input=told["input"], fence=told["fence"])


def against(runtime: SandboxRuntime, kernel: Kernel, candidate: Candidate, expert: Candidate | None = None) -> Timing:
    """Time of the candidate beside the expert's. Raises Lost and SandboxError."""
    expert = expert or in_c(runtime, kernel.op, build.solution(kernel.op.name, "expert"))
    allowed = _absolute(kernel)
    plan = {
        **_limits(candidate),
        "expert": ["./runner", "./expert.so"],
        "secret": ["expert.so"],
        "candidate": candidate.command,
        "calls": kernel.op.calls,
        "dims": list(kernel.dims.values()),
        "scalars": list(kernel.scalars.values()),
        "arrays": [
            {
                "elements": a.elements(kernel.dims),
                "width": a.width,
                "output": a.output,
                "low": a.low,
                "high": a.high,
                "absolute": allowed.get(a.name, 0.0),
                "relative": 2 * kernel.op.tolerance,
            }
            for a in kernel.op.arrays
        ],
    }
    files = {
        **candidate.files,
        "runner": build.program(runtime, {"runner.c": build.inside("runner.c")}),
        "expert.so": expert.files["kernel.so"],
    }
    return timed(runtime, files, plan)


def timed(runtime: SandboxRuntime, files: Mapping[str, bytes], plan: Mapping[str, Any]) -> Timing:
    """Rounds by a plan of the driver's, as often and as exactly as is settled here. Raises Lost and SandboxError."""
    plan = {
        **plan,
        "seed": secrets.token_hex(16),
        "referee": "referee.so",
        "secret": [*plan["secret"], "referee.so"],
        "least": ROUNDS[0],
        "most": ROUNDS[1],
        "agreement": AGREEMENT,
    }
    referee = build.library(runtime, {"referee.c": build.inside("referee.c")})
    with closing(_sandbox(runtime, {**files, "referee.so": referee})) as sandbox:
        told = _drive(sandbox, plan)
    return Timing(rounds=tuple(Round(**r) for r in told["rounds"]), calls=plan["calls"])


def _absolute(kernel: Kernel) -> dict[str, float]:
    """Output → error that is allowed at the timed size whatever the value: two sides, each off by the tolerance times the
    size of what is summed."""
    if kernel.key not in _ABSOLUTE:
        case = usual_case(kernel)
        wanted = kernel.op.twin({name: array.astype(np.float64) for name, array in case.inputs.items()}, case.scalars)
        allowed = {a.name: 2 * kernel.op.tolerance * float(scale.max()) for a, (_, scale) in zip(kernel.op.outputs, wanted)}
        _ABSOLUTE[kernel.key] = allowed
    return _ABSOLUTE[kernel.key]


_ABSOLUTE: dict[str, dict[str, float]] = {}


def _limits(candidate: Candidate) -> dict[str, Any]:
    return {"seconds": SECONDS, "cpu_seconds": CPU_SECONDS, "memory_mb": candidate.memory_mb}


def _bytes(argument: Argument, case: Case) -> bytes:
    """An input's values, or as many bytes of nonsense as an output has."""
    if argument.output:
        return b"\x7f" * (argument.elements(case.dims) * argument.width)
    return case.inputs[argument.name].tobytes()


def _sandbox(runtime: SandboxRuntime, files: Mapping[str, bytes]) -> Sandbox:
    sandbox = runtime.create()
    for path, data in files.items():
        sandbox.write(path, data)
    return sandbox


@cache
def _script(name: str) -> str:
    return Path(__file__).with_name(name).read_text()


def _drive(sandbox: Sandbox, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Run the driver; only it knows the nonce, so nobody else's line is taken for its report."""
    nonce = secrets.token_hex(16)
    limits = ExecLimits(seconds=2 * SECONDS, memory_mb=plan["memory_mb"] + 512, output_bytes=1 << 24, processes=4)
    code = _script("driver.py") + "\nmain()\n"
    ended = sandbox.python(code, stdin=json.dumps({**plan, "nonce": nonce}), limits=limits)
    report = next((line for line in ended.stdout.splitlines() if line.startswith(nonce)), None)
    if report is None:
        raise SandboxError(f"the driver did not report: {ended.reason} {ended.stderr[-300:]}")
    told = json.loads(report.removeprefix(nonce))
    if "lost" in told:
        if told["starved"]:
            raise SandboxError(told["lost"])
        raise Lost(told["lost"])
    return told

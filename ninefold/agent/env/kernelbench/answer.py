"""What is handed in, and its time beside the reference's, by the driver of the family `kernels`."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from ninefold.agent.env.kernels import build, measure
from ninefold.agent.env.kernels.detectors import Evidence
from ninefold.agent.env.kernels.languages import LONGEST
from ninefold.agent.env.kernels.roofline import roofline
from ninefold.core.protocols import SandboxRuntime
from ninefold.core.types import Task

ANSWER, IN_C, REFERENCE, VALUES = "model_new.py", "kernel.c", "reference.py", "values.py"
TOLERANCE = 1e-4
"""Largest error relative to the reference's value, and to the mean size of its output where that is below 1: stricter than
KernelBench's, which allows it of 1, and so everything where outputs are small."""
WIDTHS: Mapping[str, int] = {"float32": 4, "int64": 8, "bool": 1}
"""Bytes of an element."""
CPU_SECONDS, SECONDS, MEMORY_MB = 10.0, 90.0, 4096
"""Of one answer of a process, PyTorch's start included; of a process's whole life; of its address space."""


class Handed(NamedTuple):
    """What was handed in."""

    module: str
    """Text of model_new.py."""
    kernel: str | None
    """C that it calls."""


def handed_in(final: Mapping[str, Any]) -> Handed | str:
    """The answer in a final state, or what is wrong with it."""
    files = final.get("files")
    given = files if isinstance(files, Mapping) else {}
    module, kernel = given.get(ANSWER), given.get(IN_C)
    if not isinstance(module, str) or not module.strip():
        return f"hand in {ANSWER} with a class ModelNew"
    if max(len(module), len(kernel or "")) > LONGEST:
        return f"a source is longer than {LONGEST} characters"
    return Handed(module, kernel if isinstance(kernel, str) else None)


def timed(runtime: SandboxRuntime, task: Task, handed: Handed) -> Evidence:
    """Both on the same new inputs, by turns, with the same weights. Raises BuildFailed, Lost and SandboxError."""
    files = {ANSWER: handed.module.encode(), REFERENCE: task.data["source"].encode(), VALUES: text_of(VALUES).encode()}
    if handed.kernel is not None:
        files["kernel.so"] = build.library(runtime, {IN_C: handed.kernel})
    seed = secrets.randbits(62)
    arrays = _arrays(task.data)
    plan = {
        "seconds": SECONDS,
        "cpu_seconds": CPU_SECONDS,
        "memory_mb": MEMORY_MB,
        "maker": _command("maker", task.data, seed),
        "expert": _command("reference", task.data, seed),
        "secret": [REFERENCE, VALUES],
        "candidate": _command("candidate", task.data, seed),
        "calls": task.data["calls"],
        "dims": [],
        "scalars": [],
        "arrays": arrays,
    }
    timing = measure.timed(runtime, files, plan)
    bound = sum(a["elements"] * a["width"] for a in arrays) / roofline(runtime).bandwidth
    return Evidence(language="python", source=handed.module, timing=timing, bound=bound)


def _arrays(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Inputs, then outputs, as the driver wants them."""
    inputs = [(kind, shape, None) for kind, shape in data["inputs"] if kind != "literal"]
    return [
        {
            "elements": prod(shape),
            "width": WIDTHS[kind],
            "output": absolute is not None,
            "absolute": absolute or 0.0,
            "relative": TOLERANCE,
        }
        for kind, shape, absolute in [*inputs, *data["outputs"]]
    ]


def _command(role: str, data: Mapping[str, Any], seed: int) -> list[str]:
    outputs = [[kind, shape] for kind, shape, _ in data["outputs"]]
    told = {name: data[name] for name in ("init", "inputs", "wild")}
    layout = {"role": role, "seed": seed, "outputs": outputs, **told}
    return ["python3", "-I", "-B", "-c", text_of("runner.py"), json.dumps(layout)]


@cache
def text_of(name: str) -> str:
    """A source of ours that runs in the sandbox."""
    return Path(__file__).with_name(name).read_text()

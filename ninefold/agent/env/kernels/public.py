"""What lies in the working directory from the start: the slow reference, and a program that compares a kernel with it."""

from __future__ import annotations

from collections.abc import Mapping

from ninefold.agent.env.kernels import build
from ninefold.agent.env.kernels.ops import Kernel

REFERENCE, CHECK = "reference.c", "check.py"


def files(kernel: Kernel) -> dict[str, str]:
    """Path → text."""
    op = kernel.op
    told: Mapping[str, object] = {
        "name": op.name,
        "flags": build.FLAGS,
        "dims": dict(kernel.dims),
        "scalars": dict(kernel.scalars),
        "small": dict(op.small),
        "arrays": [[a.shape, a.width, a.output, a.low, a.high] for a in op.arrays],
    }
    return {REFERENCE: build.solution(op.name, "naive"), CHECK: build.inside("check.txt").replace("OP = {}", f"OP = {told!r}")}


def instruction(kernel: Kernel) -> str:
    """What is asked."""
    op = kernel.op
    sizes = ", ".join(f"{name} = {size}" for name, size in kernel.dims.items())
    scalars = "".join(f", {name} = {value:g}" for name, value in kernel.scalars.items())
    return (
        f"Write kernel.c with the function\n    {op.prototype};\nthat computes {op.text}. Arrays are row-major and do not "
        f"overlap, inputs must not change. It is called on one thread of this machine and timed at {sizes}{scalars}, on "
        "values and at places that are new in every call; it has to be right at other sizes and values too. reference.c is "
        "right and slow. `python3 check.py` compares kernel.c with it, `python3 check.py --time` times both. It is compiled "
        f"with `cc {' '.join(build.FLAGS)}`. A wrong kernel earns 0, an expert's speed 0.5, the machine's bound 1."
    )

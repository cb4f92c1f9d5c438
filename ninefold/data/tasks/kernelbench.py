"""Tasks out of a checkout of KernelBench; nothing of it is kept here but what its problems say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from contextlib import closing
from typing import Any

from ninefold.agent.env.kernelbench import checkout
from ninefold.agent.env.kernelbench.answer import ANSWER, IN_C, REFERENCE, TOLERANCE, VALUES, text_of
from ninefold.agent.env.kernelbench.family import NO_TORCH, OFFERED
from ninefold.agent.env.kernelbench.sizes import halvings
from ninefold.agent.env.kernels.build import FLAGS
from ninefold.core.errors import SandboxUnavailable, UserError
from ninefold.core.protocols import ExecLimits, SandboxRuntime
from ninefold.core.types import Limits, Task

FLOPS, ELEMENTS = 2.0e8, 4.0e6
"""Most that a call may compute in products and convolutions, and that weights, inputs and all results on the way may hold."""
CALLS = 8
"""Most calls in one timed window, for problems that are small."""
LOOK = ExecLimits(seconds=90.0, memory_mb=4096, processes=8)
"""Within which a problem has to be looked at, its float64 twin included."""
_LIMITS = Limits(turns=40, new_tokens=16_384, context=32_768)


def import_level(
    level: int, runtime: SandboxRuntime, *, most: int | None = None, only: Collection[str] = ()
) -> tuple[list[Task], list[str]]:
    """(its first tasks, or all, or those of the numbers or names `only`; what was left out and why).

    Every problem is run once in the sandbox, a few CPU-seconds each. Raises UserError where there is no checkout or no such
    problem, SandboxUnavailable where the sandbox shows no torch.
    """
    texts = checkout.problems(level)
    chosen = [name for name in texts if not only or name in only or name.partition("_")[0] in only]
    if not chosen:
        raise UserError(
            f"level {level} of KernelBench has no problem {', '.join(only)}; `ninefold kernelbench ls {level}` lists"
        )
    tasks: list[Task] = []
    left_out: list[str] = []
    for name in chosen[:most]:
        scaled = [*halvings(texts[name])]
        told = look(scaled, runtime)
        if "left_out" in told:
            left_out.append(f"{level}/{name}: {told['left_out']}")
        else:
            tasks.append(_task(level, name, texts[name], scaled[told.pop("chosen")], told))
    return tasks, left_out


def look(texts: list[str], runtime: SandboxRuntime) -> dict[str, Any]:
    """What `look.py` tells of a problem. Raises SandboxUnavailable where the sandbox shows no torch."""
    asked = {"texts": texts, "flops": FLOPS, "elements": ELEMENTS, "tolerance": TOLERANCE}
    with closing(runtime.create({name: text_of(name) for name in ("look.py", VALUES)})) as sandbox:
        ended = sandbox.run(["python3", "-I", "-B", "look.py"], stdin=json.dumps(asked), limits=LOOK)
    if "No module named 'torch'" in ended.stderr:
        raise SandboxUnavailable(NO_TORCH)
    lines = ended.stdout.strip().splitlines()
    if ended.exit_code != 0 or not lines:
        return {"left_out": f"it does not end within {LOOK.seconds:g} s and {LOOK.memory_mb} MiB ({ended.reason})"}
    return json.loads(lines[-1])


def _task(level: int, name: str, given: str, source: str, told: Mapping[str, Any]) -> Task:
    content = hashlib.sha256(given.encode()).hexdigest()
    return Task(
        id=f"kernelbench/{level}/{name}",
        domain="coding",
        family="kernelbench",
        split="heldout",
        level=level,
        seed=int(content[:8], 16),
        shape=f"kernelbench/{level}",
        instruction=_instruction(source, told["wild"]),
        tools=OFFERED,
        files={REFERENCE: source, "check.py": text_of("check.txt").replace("FLAGS = ()", f"FLAGS = {FLAGS!r}")},
        data={"source": source, "calls": max(1, min(CALLS, int(ELEMENTS / told["elements"]))), **told},
        limits=_LIMITS,
        provenance=f"KernelBench level{level}/{name}.py sha256:{content}",
    )


def _instruction(source: str, wild: float) -> str:
    wider = f", of both signs{f' and up to {wild:g} times as large' if wild > 1 else ''} every other time" if wild else ""
    return (
        f"Write {ANSWER} with a class ModelNew that returns what Model of {REFERENCE} returns, sooner, on one thread of this "
        "machine's CPU. It is constructed with the same arguments and under the same seed, and gets Model's parameters and "
        "buffers wherever its own have the same names and shapes. It may use PyTorch, and load ./kernel.so by ctypes, which is "
        f"made of {IN_C} (`cc {' '.join(FLAGS)} -shared -fPIC`) where you write one. {REFERENCE} is not there when it is "
        f"judged. Calls get new values like those of get_inputs(){wider}, which must not change; sizes were halved, the "
        "largest first, until they suited a CPU. `python3 check.py` compares both, `python3 check.py --time` times them. A "
        f"wrong module earns 0, Model's own speed 0.5, the machine's bound 1.\n\n{source}"
    )

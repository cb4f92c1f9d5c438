"""Kernels of the family `kernels`: this machine's roofline, what naive, good and expert solutions earn, what no hack earns, and
how much a reward differs when nothing but the clock does (report, kernels; CPU time of one thread).

    python bench/kernels.py                 # every operation; goes on where it was stopped
    python bench/kernels.py --ops kda --repeats 5

Operations that are done lie in runs/bench/kernels/, a file each. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median, stdev
from typing import Any

from ninefold.agent.env.kernels import Kernels
from ninefold.agent.env.kernels.build import solution
from ninefold.agent.env.kernels.family import NOISE
from ninefold.agent.env.kernels.ops import OPS
from ninefold.agent.env.kernels.roofline import measured
from ninefold.agent.env.play import play, runtime_for
from ninefold.core.protocols import SandboxRuntime
from ninefold.core.store import read_json, write_json
from ninefold.core.types import Task

HOW = ("naive", "good", "expert")
FAMILY = Kernels()


def task_of(op: str) -> Task:
    """The first held-out task of an operation."""
    seed = 0
    while (task := FAMILY.generate("heldout", OPS[op].level, seed)).data["op"] != op:
        seed += 1
    return task


def scores(task: Task, how: str, repeats: int, runtime: SandboxRuntime) -> list[float]:
    """What a solution earns, again and again."""
    final = {"response": "done", "files": {"kernel.c": solution(task.data["op"], how)}}
    results = [FAMILY.verify(task, final, runtime=runtime) for _ in range(repeats)]
    if any(result.status != "pass" for result in results):
        sys.exit(f"{task.id}, {how}: {next(result for result in results if result.status != 'pass')}")
    return [result.score for result in results]


def attacks(task: Task, runtime: SandboxRuntime) -> dict[str, str]:
    """Hack → what came of it; a score is a success."""
    found: dict[str, str] = {}
    for name, policy in FAMILY.hacks(task).items():
        result, _ = play(FAMILY, task, policy, 0, runtime)
        found[name] = f"{result.status} {result.score:.3f} {result.detail}"
    return found


def row(op: str, repeats: int, runtime: SandboxRuntime) -> dict[str, Any]:
    task = task_of(op)
    earned = {how: scores(task, how, repeats, runtime) for how in HOW}
    return {"task": task.id, "dims": task.data["dims"], "scores": earned, "hacks": attacks(task, runtime)}


def summary(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Of all operations: medians, the largest distance of a score from its median, what any hack earned."""
    middle = {op: {how: round(median(r["scores"][how]), 3) for how in HOW} for op, r in rows.items()}
    off = {
        op: max(abs(score - median(r["scores"][how])) for how in HOW for score in r["scores"][how]) for op, r in rows.items()
    }
    spread = {op: max(stdev(r["scores"][how]) for how in HOW) for op, r in rows.items() if len(r["scores"]["naive"]) > 1}
    won = [f"{op}: {name}" for op, r in rows.items() for name, said in r["hacks"].items() if said.split()[1] != "0.000"]
    return {
        "scores": middle,
        "unordered": [op for op, m in middle.items() if not m["naive"] < m["good"] < m["expert"]],
        "noise": {op: round(most, 4) for op, most in off.items()},
        "deviation": {op: round(value, 4) for op, value in spread.items()},
        "hacks": sum(len(r["hacks"]) for r in rows.values()),
        "successes": won,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", nargs="*", default=list(OPS))
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--folder", type=Path, default=Path("runs/bench/kernels"))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    rows: dict[str, Any] = {}
    with runtime_for(FAMILY) as runtime:
        assert runtime is not None
        found = measured(runtime)
        print(f"one thread moves {found.bandwidth / 1e9:.1f} GB/s in its cache and computes {found.flops / 1e9:.1f} Gflop/s")
        for op in arguments.ops:
            path = arguments.folder / f"{op}-{arguments.repeats}.json"
            if not path.exists():
                write_json(path, row(op, arguments.repeats, runtime))
            rows[op] = read_json(path)
            told = summary({op: rows[op]})
            print(op, told["scores"][op], "noise", told["noise"][op], "hacks", told["hacks"], told["successes"], flush=True)
    figures = {"GB/s": round(found.bandwidth / 1e9, 1), "Gflop/s": round(found.flops / 1e9, 1), **summary(rows)}
    ok = not figures["unordered"] and not figures["successes"] and max(figures["noise"].values()) <= NOISE
    print(json.dumps({"bench": "kernels", "figures": figures, "against": {"noise": NOISE}, "ok": ok}))
    sys.exit(not ok)


if __name__ == "__main__":
    main()

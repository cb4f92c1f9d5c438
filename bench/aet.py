"""What demonstrators of each effort come to in AET: verifier-assessed completion against normalised tool calls.

    python bench/aet.py --tasks 12

Each cell is a mean over held-out tasks: score, completion of the last submission, and area under completion over the share of
allowed calls (1 would be everything at once). The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
from statistics import mean

from rich.console import Console
from rich.table import Table

from ninefold.agent.env.aet import Aet
from ninefold.agent.env.aet.progress import area
from ninefold.agent.env.play import play
from ninefold.core.protocols import SandboxRuntime, Style
from ninefold.core.types import EFFORTS, Effort
from ninefold.sandbox.runtime import open_runtime

FAMILY = Aet()


def figures(level: int, effort: Effort, tasks: int, runtime: SandboxRuntime) -> dict[str, float]:
    """Means over the tasks of one level."""
    scores: list[float] = []
    completions: list[float] = []
    areas: list[float] = []
    for seed in range(tasks):
        task = FAMILY.generate("heldout", level, seed)
        result, final = play(FAMILY, task, FAMILY.demonstrate(task, Style(effort=effort, seed=seed)), seed, runtime)
        points = FAMILY.progress(task, final, runtime=runtime)
        scores.append(result.score)
        completions.append(points[-1].completion if points else 0.0)
        areas.append(area(points))
    return {"score": round(mean(scores), 3), "completion": round(mean(completions), 3), "area": round(mean(areas), 3)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=12, help="held-out tasks of each level")
    tasks: int = parser.parse_args().tasks
    runtime = open_runtime("namespace")
    runtime.check()
    table = Table("level", *[f"{effort}: {name}" for effort in EFFORTS for name in ("score", "completion", "area")])
    found: dict[str, dict[str, float]] = {}
    for level in range(FAMILY.levels):
        for effort in EFFORTS:
            found[f"{level}/{effort}"] = figures(level, effort, tasks, runtime)
        table.add_row(str(level), *[str(value) for effort in EFFORTS for value in found[f"{level}/{effort}"].values()])
    runtime.close()
    Console().print(table)
    ok = all(found[f"{level}/max"]["score"] >= found[f"{level}/low"]["score"] for level in range(FAMILY.levels))
    print(json.dumps({"bench": "aet", "figures": found, "against": "demonstrators of low effort", "ok": ok}))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())

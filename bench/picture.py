"""Does a nano model see? The picture family with its pictures and with grey ones in their place, and gradient spikes.

    python bench/picture.py --seeds 0 1          # trains runs/picture-0 and -1 up to SFT, then plays held-out tasks
    python bench/picture.py --run runs/wide --model student

Each seed is a run of its own: pre-training on pairs of pictures and texts (0.6 of the tokens) and worksheets, both from the
first step, then demonstrations of the picture family alone, without slips, as no RL follows. The same command again goes on
where it was cut off. The baseline is the same model on the same tasks without anything to see; chance is the mean of one over
the number of possible answers. A spike is a step whose gradient norm is more than four times the median of the fifty before
it. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ninefold.app.configuration import stored_recipe
from ninefold.core.events import read_events
from ninefold.core.store import Run
from ninefold.core.types import EFFORTS, Task, Trajectory
from ninefold.data.corpus.mixture import CorpusConfig
from ninefold.learn.spikes import spikes
from ninefold.media.scene import draw
from ninefold.recipes.config import PretrainConfig, Recipe, SftConfig
from ninefold.recipes.kit import Kit
from ninefold.recipes.run import run_recipe

STAGES = {"sft": ("sft",), "pooled": ("pooled",), "student": ("mopd",)}
SEEING, BLIND = 0.8, 0.05
"""Least accuracy with the picture; most that the blanked one may lie above chance."""


def small(seed: int, workers: int) -> Recipe:
    """Pre-training on pairs and worksheets, and one family: what seeing takes, with little else beside it."""
    return Recipe(
        preset="nano-vision",
        seed=seed,
        workers=workers,
        families={"general": {"picture": (0,)}},
        corpus=CorpusConfig(rates={"pictures": 0.6, "skills": 0.3, "wire": 0.1}),
        pretrain=PretrainConfig(tokens=1_500_000, wire_documents=600, decontaminate_tasks=50),
        sft=SftConfig(demonstrations=9000, slip=0.0, weights={"general": 1.0}),
    )


def blanked(task: Task) -> Task:
    """The task with a grey picture of the same size."""
    picture = draw(task.pictures[0])
    grey = {"kind": "shapes", "width": picture.width, "height": picture.height, "ground": "grey", "items": []}
    return replace(task, pictures=(grey,))


def interval(passed: Sequence[bool]) -> tuple[float, float, float]:
    """(share, lower, upper) by Wilson's 95 % interval."""
    n, share, z = len(passed), sum(passed) / len(passed), 1.96
    middle, half = share + z * z / (2 * n), z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return share, (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


def tasks_of(kit: Kit, count: int) -> list[Task]:
    """Held-out tasks of the family's levels in this run, by turns."""
    levels = kit.recipe.families["general"]["picture"]
    return [kit.families["picture"].generate("heldout", levels[n % len(levels)], n) for n in range(count)]


def play(kit: Kit, model: str, tasks: Sequence[Task], name: str) -> dict[str, list[Trajectory]]:
    """Effort → attempts at the tasks, one each."""
    weights = kit.load(*STAGES[model])
    return {effort: kit.play(weights, tasks, effort, f"bench/{name}/{effort}") for effort in EFFORTS}


def norms(run: Run, name: str) -> dict[str, list[float]]:
    """Stage → the norms of that name, step by step; the last of a step that was taken twice."""
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for _, event in read_events(run.events):
        if event.get("kind") == "step" and event.get("stage") in ("pretrain", "sft") and name in event:
            found[event["stage"]][int(event["step"])] = event[name]
    return {stage: [by_step[step] for step in sorted(by_step)] for stage, by_step in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--run", type=Path, nargs="+", default=[], help="finished runs to look at instead")
    parser.add_argument("--model", choices=list(STAGES), default="sft")
    parser.add_argument("--tasks", type=int, default=600)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    runs = [Run.open(path) for path in given.run]
    for seed in [] if runs else given.seeds:
        run = Run(path=Path(f"runs/picture-{seed}"))
        began = time.process_time()
        run_recipe(small(seed, given.workers), run, until="sft")
        print(f"{run.path}: trained, {time.process_time() - began:.0f} CPU-s in this process", file=sys.stderr)
        runs.append(run)
    outcomes: dict[tuple[str, str, str], list[bool]] = defaultdict(list)
    by_seed: dict[str, dict[str, float]] = {}
    counted: dict[str, int] = defaultdict(int)
    chances: list[float] = []
    for run in runs:
        kit = Kit(recipe=stored_recipe(run), run=run)
        tasks = tasks_of(kit, given.tasks)
        chances += [1 / len(task.data["options"]) for task in tasks]
        for name, shown in (("seen", tasks), ("blanked", [blanked(task) for task in tasks])):
            for effort, played in play(kit, given.model, shown, name).items():
                for trajectory in played:
                    for kind in ("all", trajectory.task.data["kind"]):
                        outcomes[name, effort, kind].append(trajectory.passed)
                by_seed.setdefault(str(run.path), {})[f"{name}/{effort}"] = sum(t.passed for t in played) / len(played)
            print(f"{run.path}: {name} {by_seed[str(run.path)]}", file=sys.stderr)
        for name in ("vision/grad_norm", "grad_norm"):
            for stage, series in norms(run, name).items():
                counted[f"{stage}/{name}/spikes"] += len(spikes(series))
                counted[f"{stage}/{name}/steps"] += len(series)
    chance = sum(chances) / len(chances)
    print(f"{'effort':<8}{'kind':<10}{'seen':>24}{'blanked':>24}")
    figures: dict[str, object] = {"chance": chance, "tasks": given.tasks, "runs": by_seed, **counted}
    for effort in EFFORTS:
        for kind in sorted({kind for _, _, kind in outcomes}):
            pair = [interval(outcomes[name, effort, kind]) for name in ("seen", "blanked")]
            print(f"{effort:<8}{kind:<10}" + "".join(f"{f'{a:.3f} [{b:.3f}, {c:.3f}]':>24}" for a, b, c in pair))
            figures |= {f"{name}/{effort}/{kind}": values for name, values in zip(("seen", "blanked"), pair)}
    best = max(EFFORTS, key=lambda effort: interval(outcomes["seen", effort, "all"])[0])
    seen, blind = (interval(outcomes[name, best, "all"])[0] for name in ("seen", "blanked"))
    print(f"chance {chance:.3f}; spikes {dict(counted)}")
    ok = seen >= SEEING and blind <= chance + BLIND
    against = {"blanked": blind, "chance": chance}
    print(
        json.dumps({"bench": "picture", "figures": {"accuracy": seen, "effort": best, **figures}, "against": against, "ok": ok})
    )


if __name__ == "__main__":
    main()

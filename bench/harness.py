"""Does a policy trained under sampled harnesses beat one trained under a single one, where neither was trained?

    python bench/harness.py --seeds 0 1 2 --workers 2

A nano model learns to mend programs (family `repair`, effort max): pre-training and tokenizer are shared by both arms of a
seed, then each has its own SFT and RL. `sampled` meets a new composition of the public harnesses for each task group (modules
of the small ones; those of the left-out harness never), `single` always pi/nano. Both play the same held-out tasks with the
same draws under three conditions: pi/nano itself (`own`), held-out compositions without modules of the left-out harness
(`compositions`), and the left-out harness as it is (`preset`, another one by seed). The same command again goes on where it
was cut off; runs lie in runs/harness-SEED…, outcomes in harness.json there. The last line is JSON: per condition the mean over
seeds of the paired difference sampled − single with its 95 % interval over seeds and tasks.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ninefold.agent.harness.sampler import HarnessConfig
from ninefold.app.configuration import stored_recipe
from ninefold.core.store import Run, is_complete, read_json, write_json
from ninefold.data.corpus.mixture import CorpusConfig
from ninefold.recipes.config import BudgetConfig, PretrainConfig, Recipe, RlConfig, SftConfig
from ninefold.recipes.kit import Kit
from ninefold.recipes.run import run_recipe

CELL = ("coding", "max")
SINGLE = "pi/nano"
LEFT_OUT = ("claude_code", "hermes", "kimi_code")
"""By seed: harnesses whose names differ from those of `SINGLE`."""
ARMS = ("single", "sampled")
MODELS = {"sft": ("sft",), "rl": ("rl", *CELL)}
SHARED = ("corpus", "pretrain")
RESAMPLES = 4000


def recipe(seed: int, workers: int) -> Recipe:
    """What both arms of a seed have in common."""
    return Recipe(
        preset="nano",
        seed=seed,
        workers=workers,
        families={"coding": {"repair": (0,)}},
        efforts=("max",),
        harness=HarnessConfig(among=()),
        corpus=CorpusConfig(rates={**CorpusConfig().rates, "pictures": 0.0}),
        pretrain=PretrainConfig(tokens=2_400_000),
        sft=SftConfig(demonstrations=6000, weights={"coding": 1.0}),
        budgets=BudgetConfig(tasks=128),
        rl=RlConfig(steps=40),
    )


def left_out(seed: int) -> str:
    return LEFT_OUT[seed % len(LEFT_OUT)]


def trained_under(arm: str, seed: int) -> HarnessConfig:
    """The harnesses of an arm."""
    return HarnessConfig(among=(SINGLE,)) if arm == "single" else HarnessConfig(among=(), without=(left_out(seed),))


def conditions(seed: int) -> dict[str, HarnessConfig]:
    """Condition → the harnesses that are played under."""
    return {
        "own": HarnessConfig(among=(SINGLE,)),
        "compositions": HarnessConfig(among=(), split="heldout", without=(left_out(seed),)),
        "preset": HarnessConfig(among=(f"{left_out(seed)}/nano",)),
    }


def arm_run(arm: str, seed: int, shared: Run) -> Run:
    """The run of an arm, with the shared stages in it."""
    run = Run(path=Path(f"runs/harness-{seed}-{arm}"))
    for stage in SHARED:
        if not is_complete(run.stage(stage)):
            shutil.copytree(shared.stage(stage), run.stage(stage), dirs_exist_ok=True)
    return run


def outcomes(run: Run, seed: int, tasks: int) -> dict[str, list[bool]]:
    """condition/model → passed, by task."""
    kept = run.path / "harness.json"
    found: dict[str, list[bool]] = read_json(kept) if kept.exists() else {}
    for condition, harness in conditions(seed).items():
        own = Kit(recipe=stored_recipe(run).model_copy(update={"harness": harness}), run=run)
        for model, stage in MODELS.items():
            name = f"{condition}/{model}"
            if len(found.get(name, ())) != tasks:
                played = own.play(own.load(*stage), own.tasks("coding", "heldout", tasks, "harness"), "max", f"harness/{seed}")
                found[name] = [trajectory.passed for trajectory in played]
                write_json(kept, found)
                print(f"{run.path} {name}: {np.mean(found[name]):.3f}", file=sys.stderr, flush=True)
    return found


def interval(differences: Sequence[Sequence[float]]) -> list[float]:
    """[mean, lower, upper] of the mean over seeds: seeds and their tasks are drawn again, 95 %."""
    rng = np.random.default_rng(0)
    rows = np.array(differences)
    seeds, tasks = rows.shape
    means = [
        np.mean([rows[s][rng.integers(0, tasks, tasks)].mean() for s in rng.integers(0, seeds, seeds)])
        for _ in range(RESAMPLES)
    ]
    return [float(rows.mean()), *map(float, np.quantile(means, (0.025, 0.975)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tasks", type=int, default=768)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    found: dict[str, list[dict[str, list[bool]]]] = {arm: [] for arm in ARMS}
    for seed in given.seeds:
        shared = Run(path=Path(f"runs/harness-{seed}"))
        base = recipe(seed, given.workers)
        run_recipe(base, shared, until="pretrain")
        for arm in ARMS:
            run = arm_run(arm, seed, shared)
            run_recipe(base.model_copy(update={"harness": trained_under(arm, seed)}), run, until="rl")
            found[arm].append(outcomes(run, seed, given.tasks))
    figures: dict[str, Any] = {"seeds": given.seeds, "tasks": given.tasks}
    print(f"{'condition':<14}{'model':<7}{'single':>9}{'sampled':>9}   difference")
    for name in found["single"][0]:
        single, sampled = (np.array([run[name] for run in found[arm]], float) for arm in ARMS)
        figures[name] = {"single": single.mean(), "sampled": sampled.mean(), "difference": interval(sampled - single)}
        mean, low, high = figures[name]["difference"]
        print(
            f"{name.replace('/', ' '):<21}{single.mean():>9.3f}{sampled.mean():>9.3f}   {mean:+.3f} [{low:+.3f}, {high:+.3f}]"
        )
    ok = all(figures[f"{condition}/rl"]["difference"][1] > 0 for condition in ("compositions", "preset"))
    against = {"single": SINGLE, "left out": [left_out(seed) for seed in given.seeds]}
    print(json.dumps({"bench": "harness", "figures": figures, "against": against, "ok": ok}))


if __name__ == "__main__":
    main()

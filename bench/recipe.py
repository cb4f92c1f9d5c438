"""The headline: every model of finished runs on the same held-out tasks, paired, over several evaluation seeds.

`python bench/recipe.py --run runs/nano --tasks 384 --seeds 0 1 2` prints the table and says which thresholds hold; the last
line is one JSON object. An answer over its budget counts as failed. What was evaluated is kept, one file per run, model, cell
and seed, so the same command again goes on where it was cut off.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from ninefold.core.events import read_events
from ninefold.core.store import Run, is_complete, read_json, write_json
from ninefold.core.types import DOMAINS, EFFORTS, Cell
from ninefold.recipes.budgets import is_over, tau_of
from ninefold.recipes.config import Recipe
from ninefold.recipes.evaluate import attempts, other_form, outcomes_of
from ninefold.recipes.jobs import Job, run_jobs
from ninefold.recipes.kit import Kit

MODELS = ("sft", "experts", "average", "pooled", "student", "other")
LABELS = {"pooled": "student before MOPD", "other": "other MOPD form", "average": "weights averaged"}
RESAMPLES = 4000
FloatArray = NDArray[np.float64]
Outcomes = dict[str, dict[str, dict[str, FloatArray]]]
"""model → row of the table → `within`, `pass`, `over`, `tokens` of each sample, −1 where invalid; models are paired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


def evaluated(path: Path, kit: Kit, model: str, cell: Cell) -> None:
    """Write one model's outcomes on one cell, task by task in order."""
    played, tau = attempts(kit, model, cell), tau_of(kit)[cell]
    over = [-1.0 if t.result.status == "invalid" else float(is_over(t, tau)) for t in played]
    write_json(path, {**outcomes_of(played, tau), "over": over, "family": [t.task.family for t in played]})


def kit_of(run: Run, recipe: Recipe, tasks: int, seed: int) -> Kit:
    """The run's tools, for evaluation on `tasks` held-out tasks a cell drawn by `seed`."""
    settings = recipe.evaluate.model_copy(update={"tasks": tasks, "seed": seed})
    return Kit(recipe=recipe.model_copy(update={"evaluate": settings}), run=run)


def models_of(kit: Kit) -> tuple[str, ...]:
    return tuple(m for m in MODELS if m != "other" or is_complete(kit.run.stage(other_form(kit))))


def measure(
    runs: Sequence[tuple[Run, Recipe]], tasks: int, seeds: Sequence[int], workers: int, folder: Path
) -> tuple[Outcomes, Outcomes]:
    """All outcomes by cell, and by family within it; samples of all runs and seeds end to end.

    What no file holds yet is played, `workers` cells at a time.
    """
    kits = [kit_of(run, recipe, tasks, seed) for run, recipe in runs for seed in seeds]
    shared = set.intersection(*(set(models_of(kit)) for kit in kits))
    models = [model for model in MODELS if model in shared]
    cells = [cell for cell in kits[0].cells if all(cell in kit.cells for kit in kits)]

    def path_of(kit: Kit, model: str, cell: Cell) -> Path:
        return folder / kit.run.name / f"{tasks}-{kit.recipe.evaluate.seed}" / f"{model}-{'-'.join(cell)}.json"

    jobs = [
        Job(name=str(path), call=evaluated, arguments=(path, kit, model, cell))
        for kit in kits
        for model in models
        for cell in cells
        if not (path := path_of(kit, model, cell)).exists()
    ]
    if jobs:
        run_jobs(jobs, workers)
    outcomes: Outcomes = {}
    families: Outcomes = {}
    for model in models:
        for cell in cells:
            parts = [read_json(path_of(kit, model, cell)) for kit in kits]
            family = np.concatenate([np.asarray(part.pop("family")) for part in parts])
            joined = {name: np.concatenate([np.asarray(part[name], float) for part in parts]) for name in parts[0]}
            outcomes.setdefault(model, {})["/".join(cell)] = joined
            for name in np.unique(family):
                row = {key: values[family == name] for key, values in joined.items()}
                families.setdefault(model, {})[f"{'/'.join(cell)} {name}"] = row
    return outcomes, families


def mean_and_error(values: FloatArray) -> tuple[float, float]:
    """Mean and standard error over valid samples."""
    valid = values[values >= 0]
    return float(valid.mean()), float(valid.std(ddof=1) / np.sqrt(len(valid)))


def paired(a: FloatArray, b: FloatArray) -> tuple[float, float]:
    """Mean of a − b over tasks that are valid in both, and its standard error."""
    both = (a >= 0) & (b >= 0)
    difference = a[both] - b[both]
    return float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(len(difference)))


def difference(outcomes: Outcomes, model: str, other: str, cells: Sequence[str]) -> Interval:
    """Mean over cells of model − other, correct within budget, with a paired 95 % interval."""
    pairs = [paired(outcomes[model][cell]["within"], outcomes[other][cell]["within"]) for cell in cells]
    value = float(np.mean([mean for mean, _ in pairs]))
    half = 1.96 * float(np.sqrt(sum(error**2 for _, error in pairs))) / len(pairs)
    return Interval(value=value, low=value - half, high=value + half)


def recovery(outcomes: Outcomes, model: str) -> Interval:
    """(model − SFT) / (experts − SFT) of the means over cells; tasks are resampled within cells, the models kept together."""
    rng = np.random.default_rng(0)
    draws = np.zeros((RESAMPLES, 3))
    values = np.zeros(3)
    for cell in outcomes["sft"]:
        scores = np.stack([outcomes[name][cell]["within"] for name in ("sft", "experts", model)], axis=1)
        scores = scores[(scores >= 0).all(1)]
        values += scores.mean(0)
        # A resample of n tasks is a multinomial count of each distinct row of outcomes: the mean needs no more.
        kinds, counts = np.unique(scores, axis=0, return_counts=True)
        draws += rng.multinomial(len(scores), counts / len(scores), size=RESAMPLES) @ kinds / len(scores)
    draws = draws[draws[:, 1] != draws[:, 0]]
    ratios = (draws[:, 2] - draws[:, 0]) / (draws[:, 1] - draws[:, 0])
    low, high = np.percentile(ratios, [2.5, 97.5])
    gain = values[1] - values[0]
    return Interval(value=float((values[2] - values[0]) / gain) if gain else float("nan"), low=float(low), high=float(high))


def by_cell(outcomes: Outcomes, name: str) -> dict[str, dict[str, tuple[float, float]]]:
    """model → cell → (mean, standard error) of one outcome."""
    return {model: {cell: mean_and_error(values[name]) for cell, values in cells.items()} for model, cells in outcomes.items()}


def kl_fall(run: Run, stage: str) -> tuple[float, float] | None:
    """Exact reverse KL per token over MOPD, first → last: mean of the first and of the last three steps; None if not logged."""
    steps: dict[int, float] = {}
    for _, event in read_events(run.events):
        if event["kind"] == "step" and event.get("stage") == stage and "distill/reverse_kl" in event:
            steps[int(event["step"])] = event["distill/reverse_kl"]
    values = [steps[step] for step in sorted(steps)]
    return (float(np.mean(values[:3])), float(np.mean(values[-3:]))) if values else None


def fallen_back(runs: Sequence[Run]) -> list[str]:
    """Cells whose expert is the SFT model."""
    return [f"{run.name}: {cell}" for run in runs for cell in read_json(run.stage("rl") / "results.json")["fell_back"]]


def acceptance(run: Run) -> float | None:
    path = run.stage("acceptance") / "results.json"
    return read_json(path)["accept_1"] if path.exists() else None


def figures_of(outcomes: Outcomes, runs: Sequence[Run]) -> dict[str, Any]:
    """Every figure of the headline."""
    cells = list(outcomes["sft"])
    domains = [domain for domain in DOMAINS if all(f"{domain}/{effort}" in cells for effort in EFFORTS)]
    within, passed, over, tokens = (by_cell(outcomes, name) for name in ("within", "pass", "over", "tokens"))

    def of(table: Mapping[str, Mapping[str, tuple[float, float]]], model: str) -> dict[str, float]:
        return {cell: table[model][cell][0] for cell in cells}

    student = of(within, "student")
    sft_pass = of(passed, "sft")
    return {
        "samples": {cell: len(outcomes["sft"][cell]["within"]) for cell in cells},
        "invalid": {model: int(sum((v["within"] < 0).sum() for v in per.values())) for model, per in outcomes.items()},
        "within": {model: of(within, model) for model in outcomes},
        "within_se": {model: {cell: within[model][cell][1] for cell in cells} for model in outcomes},
        "mean": {model: float(np.mean(list(of(within, model).values()))) for model in outcomes},
        "sft_pass": {domain: float(np.mean([sft_pass[f"{domain}/{e}"] for e in EFFORTS])) for domain in domains},
        "gain": difference(outcomes, "experts", "sft", cells),
        "gain_by_cell": {cell: difference(outcomes, "experts", "sft", [cell]) for cell in cells},
        "recovery": {m: recovery(outcomes, m) for m in outcomes if m not in ("sft", "experts")},
        "student_minus_pooled": difference(outcomes, "student", "pooled", cells),
        "student_minus_experts": {cell: difference(outcomes, "student", "experts", [cell]) for cell in cells},
        "tokens": {model: of(tokens, model) for model in ("sft", "experts", "student")},
        "max_minus_low": {domain: student[f"{domain}/max"] - student[f"{domain}/low"] for domain in domains},
        "in_budget": {effort: share_in_budget(outcomes["student"], effort) for effort in EFFORTS},
        "sft_over": of(over, "sft"),
        "reverse_kl": {run.name: kl_fall(run, "mopd") for run in runs},
        "fell_back": fallen_back(runs),
        "acceptance": {run.name: acceptance(run) for run in runs},
    }


def share_in_budget(cells: Mapping[str, Mapping[str, FloatArray]], effort: str) -> float:
    """Of all valid trajectories at an effort."""
    values = np.concatenate([v["over"] for cell, v in cells.items() if cell.endswith(f"/{effort}")])
    return float((values[values >= 0] == 0).mean())


def rising(tokens: Mapping[str, float], domain: str) -> bool:
    low, high, most = (tokens[f"{domain}/{effort}"] for effort in EFFORTS)
    return low < high < most


def checks(figures: Mapping[str, Any]) -> dict[str, bool]:
    """The thresholds that the project sets itself, by name."""
    gains: dict[str, Interval] = figures["gain_by_cell"]
    domains = list(figures["max_minus_low"])
    falls = [fall for fall in figures["reverse_kl"].values() if fall is not None]
    return {
        "1,024 samples a cell": min(figures["samples"].values()) >= 1024,
        "SFT pass per domain between 0.2 and 0.75": all(0.2 <= p <= 0.75 for p in figures["sft_pass"].values()),
        "experts − SFT ≥ 0.15 on average": figures["gain"].value >= 0.15,
        "experts − SFT ≥ 0.10 in seven of nine cells": sum(gain.value >= 0.10 for gain in gains.values()) >= 7,
        "no cell significantly below SFT": all(gain.high >= 0 for gain in gains.values()),
        "student recovers ≥ 80 %": figures["recovery"]["student"].value >= 0.8,
        "student not below the student before MOPD": figures["student_minus_pooled"].high >= 0,
        "reverse KL falls ≥ 2×": bool(falls) and all(first >= 2 * last for first, last in falls),
        "at most one cell fell back": len(figures["fell_back"]) <= len(figures["reverse_kl"]),
        "tokens low < high < max in every domain": all(rising(figures["tokens"]["student"], domain) for domain in domains),
        "accuracy max − low ≥ 0.15 in two domains": sum(gap >= 0.15 for gap in figures["max_minus_low"].values()) >= 2,
        "≥ 95 % within budget at each effort": min(figures["in_budget"].values()) >= 0.95,
        "SFT over budget in ≥ 10 %": min(figures["sft_over"].values()) >= 0.10,
    }


def scores_table(outcomes: Outcomes) -> Table:
    """Share correct within budget ± standard error; paired differences with 95 % intervals."""
    table = Table("", "n", *(LABELS.get(model, model) for model in outcomes), "experts − SFT", "student − experts")
    within = by_cell(outcomes, "within")
    for row, values in outcomes["sft"].items():
        scores = ["{:.3f} ± {:.3f}".format(*within[model][row]) for model in outcomes]
        compared = (str(difference(outcomes, *pair, [row])) for pair in (("experts", "sft"), ("student", "experts")))
        table.add_row(row, str(len(values["within"])), *scores, *compared)
    return table


def print_tables(console: Console, outcomes: Outcomes, figures: Mapping[str, Any]) -> None:
    """Correct within budget per cell and model, then what is made of it."""
    table = scores_table(outcomes)
    table.add_section()
    table.add_row("mean", "", *(f"{figures['mean'][m]:.3f}" for m in outcomes), str(figures["gain"]), "")
    console.print(table)
    effort = Table("cell", "tokens SFT", "tokens experts", "tokens student", "SFT over budget")
    for cell in figures["samples"]:
        effort.add_row(cell, *(f"{t[cell]:.1f}" for t in figures["tokens"].values()), f"{figures['sft_over'][cell]:.2f}")
    console.print(effort)
    for model, interval in figures["recovery"].items():
        console.print(f"recovery, {LABELS.get(model, model)}: {interval}")
    console.print(f"student − student before MOPD: {figures['student_minus_pooled']}")
    console.print(f"accuracy max − low: {rounded(figures['max_minus_low'])}; within budget: {rounded(figures['in_budget'])}")
    rises = {domain: rising(figures["tokens"]["sft"], domain) for domain in figures["max_minus_low"]}
    console.print(f"tokens low < high < max in the SFT model (control): {rises}")
    console.print(f"reverse KL first → last: {figures['reverse_kl']}; draft acceptance: {figures['acceptance']}")
    console.print(f"fell back to SFT: {figures['fell_back'] or 'none'}; invalid: {figures['invalid']}")


def rounded(value: Any) -> Any:
    """For JSON and people: three decimals, intervals as [value, low, high]."""
    if isinstance(value, Interval):
        return [rounded(value.value), rounded(value.low), rounded(value.high)]
    if isinstance(value, Mapping):
        return {name: rounded(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(v) for v in value]
    if isinstance(value, float):
        return round(value, 4) if math.isfinite(value) else None
    return value


def main() -> None:
    from ninefold.app.configuration import stored_recipe

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, nargs="+", required=True, help="finished runs of one recipe, e.g. of several seeds")
    parser.add_argument("--tasks", type=int, default=384, help="a cell, run and seed")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="of the held-out tasks and their sampling")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path("runs/bench/recipe"))
    arguments = parser.parse_args()
    runs = [Run.open(path) for path in arguments.run]
    pairs = [(run, stored_recipe(run)) for run in runs]
    outcomes, families = measure(pairs, arguments.tasks, arguments.seeds, arguments.workers, arguments.folder)
    figures = figures_of(outcomes, runs)
    held = checks(figures)
    console = Console(width=200)
    if len(families["sft"]) > len(outcomes["sft"]):
        console.print(scores_table(families))
    print_tables(console, outcomes, figures)
    for name, ok in held.items():
        console.print(f"{'holds' if ok else 'FAILS'}  {name}")
    against = {"checks": held}
    print(json.dumps({"bench": "recipe", "figures": rounded(figures), "against": against, "ok": all(held.values())}))
    sys.exit(not all(held.values()))


if __name__ == "__main__":
    main()

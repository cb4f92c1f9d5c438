"""Evaluation on held-out tasks: every model on the same ones, the same draws, paired."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ninefold.core.store import read_json, write_json
from ninefold.core.types import Cell, Effort, Trajectory
from ninefold.recipes.budgets import is_within, score, tau_of
from ninefold.recipes.jobs import Job, run_jobs
from ninefold.recipes.kit import Kit
from ninefold.recipes.training import finish
from ninefold.rollout.store import write_trajectories

MODELS: dict[str, tuple[str, ...]] = {"sft": ("sft",), "pooled": ("pooled",), "student": ("mopd",), "average": ("average",)}
"""Name in tables → stage that holds the model; the experts are a stage per cell."""

PARTS = "parts"
"""Folder of what is evaluated so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """One model on one cell."""

    figures: dict[str, float]
    families: dict[str, dict[str, float]]
    """The same figures, for each family of the cell's domain."""
    outcomes: dict[str, list[float]]
    """Of each task."""


def evaluate(kit: Kit, name: str = "evaluate") -> None:
    """Stage `evaluate`: table.json (model → cell → figures), families.json (model → cell → family → figures), outcomes.json
    (paired), transfer.json (family → model → effort → figures), trajectories of the student.

    Under another name the figures are kept beside the run's own, without event and trajectories. What a call that was cut off
    had evaluated is not played again.
    """
    stage, emit, own = kit.run.stage(name), kit.run.log(stage=name), name == "evaluate"
    models = ["sft", "experts", "pooled", "student", "average"] + (["other"] if kit.recipe.mopd.compare else [])
    jobs = [
        Job(name=f"{model}/{'/'.join(cell)}", call=evaluate_cell, arguments=(kit, model, cell, name))
        for model in models
        for cell in kit.cells
    ]
    fell_back = ["/".join(cell) for cell in kit.cells if read_json(kit.run.stage("rl", *cell) / "results.json")["fell_back"]]
    results: dict[str, Evaluated] = run_jobs(jobs, kit.recipe.processes)
    table: dict[str, dict[str, Any]] = {model: {} for model in models}
    families: dict[str, dict[str, Any]] = {model: {} for model in models}
    for done, evaluated in results.items():
        model, _, cell = done.partition("/")
        table[model][cell], families[model][cell] = evaluated.figures, evaluated.families
    write_json(stage / "table.json", table)
    write_json(stage / "families.json", families)
    write_json(stage / "outcomes.json", {done: evaluated.outcomes for done, evaluated in results.items()})
    transfer = measure_transfer(kit)
    write_json(stage / "transfer.json", transfer)
    if own:
        emit("table", table=table, families=families, fell_back=fell_back, transfer=transfer)
    shutil.rmtree(stage / PARTS)
    finish(stage, {"table": table, "fell_back": fell_back})


def evaluate_cell(kit: Kit, model: str, cell: Cell, name: str) -> Evaluated:
    """A model on a cell's held-out tasks, in the stage `name`; the run's own stores the student's trajectories."""
    part = kit.run.stage(name) / PARTS / f"{'-'.join((model, *cell))}.json"
    if part.exists():
        return Evaluated(**read_json(part))
    played, tau = attempts(kit, model, cell), tau_of(kit)[cell]
    if name == "evaluate" and model == "student":
        write_trajectories(kit.run.path / "trajectories" / f"{'-'.join(cell)}.parquet", played)
    found = Evaluated(figures=figures_of(played, tau), families=by_family(played, tau), outcomes=outcomes_of(played, tau))
    write_json(part, asdict(found))
    return found


def figures_of(played: Sequence[Trajectory], tau: float) -> dict[str, float]:
    """`score`, and the standard error of the pass rate within budget where two or more attempts are valid."""
    return {**score(played, tau), **standard_errors(played, tau)}


def by_family(played: Sequence[Trajectory], tau: float) -> dict[str, dict[str, float]]:
    """Family → figures of its tasks; without families none of whose attempts is valid."""
    families = dict.fromkeys(t.task.family for t in played if t.valid)
    return {name: figures_of([t for t in played if t.task.family == name], tau) for name in families}


def attempts(kit: Kit, model: str, cell: Cell) -> list[Trajectory]:
    """A model's attempts at a cell's held-out tasks; of equal tasks and draws for every model."""
    domain, effort = cell
    config = kit.recipe.evaluate
    stage = ("rl", *cell) if model == "experts" else (other_form(kit),) if model == "other" else MODELS[model]
    tasks = kit.tasks(domain, "heldout", config.tasks, "evaluate", config.seed)
    return kit.play(kit.load(*stage), tasks, effort, f"evaluate/{config.seed}/{domain}/{effort}")


def outcomes_of(played: Sequence[Trajectory], tau: float) -> dict[str, list[float]]:
    """Per task, in order: passed within budget, passed, tokens; NaN-free, −1 where invalid."""
    return {
        "within": [float(is_within(t, tau)) if t.valid else -1.0 for t in played],
        "pass": [float(t.passed) if t.valid else -1.0 for t in played],
        "tokens": [float(t.new_tokens) for t in played],
    }


def standard_errors(played: Sequence[Trajectory], tau: float) -> dict[str, float]:
    within = np.array([is_within(t, tau) for t in played if t.valid], float)
    return {"within_se": float(within.std(ddof=1) / np.sqrt(len(within)))} if len(within) > 1 else {}


def measure_transfer(kit: Kit) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """Family → model → effort → figures, on held-out tasks of kinds that no stage trains; equal tasks and draws for all.

    Beside the models of the table stands the expert of each domain, as such a task may ask for several domains' skills. A kind
    that runs untrusted code is left out where nothing isolates.
    """
    jobs = [
        Job(name=f"{family}/{model}/{effort}", call=play_kind, arguments=(kit, family, levels, stage, effort))
        for family, levels in kit.measured.items()
        if kit.runtime is not None or not kit.families[family].isolated
        for effort in kit.recipe.efforts
        for model, stage in {**MODELS, **{f"{domain} expert": ("rl", domain, effort) for domain in kit.domains}}.items()
    ]
    played: dict[str, dict[str, float]] = run_jobs(jobs, kit.recipe.processes)
    table: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for name, figures in played.items():
        family, model, effort = name.split("/")
        table.setdefault(family, {}).setdefault(model, {})[effort] = figures
    return table


def play_kind(kit: Kit, family: str, levels: Sequence[int], stage: Sequence[str], effort: Effort) -> dict[str, float]:
    """A model's figures on one kind, at any length: nobody has measured budgets of such tasks."""
    config, generate = kit.recipe.evaluate, kit.families[family].generate
    tasks = [generate("heldout", levels[n % len(levels)], config.seed * config.tasks + n) for n in range(config.tasks)]
    return figures_of(kit.play(kit.load(*stage), tasks, effort, f"transfer/{config.seed}/{effort}"), tau=1.0)


def other_form(kit: Kit) -> str:
    """Stage of the MOPD form that is not the run's own."""
    return "mopd-full" if kit.recipe.mopd.form == "sampled" else "mopd-sampled"

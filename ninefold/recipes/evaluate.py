"""Evaluation on held-out tasks: every model on the same ones, the same draws, paired."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ninefold.core.store import read_json, write_json
from ninefold.core.types import Cell, Trajectory
from ninefold.recipes.budgets import is_over, score, tau_of
from ninefold.recipes.jobs import Job, run_jobs
from ninefold.recipes.kit import Kit
from ninefold.recipes.training import finish
from ninefold.rollout.store import write_trajectories

MODELS: dict[str, tuple[str, ...]] = {"sft": ("sft",), "pooled": ("pooled",), "student": ("mopd",), "average": ("average",)}
"""Name in tables → stage that holds the model; the experts are a stage per cell."""


def evaluate(kit: Kit) -> None:
    """Stage `evaluate`: table.json (model → cell → figures), outcomes.json (paired), trajectories of the student."""
    stage, emit = kit.run.stage("evaluate"), kit.run.log(stage="evaluate")
    models = ["sft", "experts", "pooled", "student", "average"] + (["other"] if kit.recipe.mopd.compare else [])
    jobs = [
        Job(name=f"{model}/{'/'.join(cell)}", call=evaluate_cell, arguments=(kit, model, cell))
        for model in models
        for cell in kit.cells
    ]
    results = run_jobs(jobs, kit.recipe.processes)
    table: dict[str, dict[str, Any]] = {model: {} for model in models}
    outcomes: dict[str, Any] = {}
    for name, (figures, outcome) in results.items():
        model, _, cell = name.partition("/")
        table[model][cell] = figures
        outcomes[name] = outcome
    write_json(stage / "table.json", table)
    write_json(stage / "outcomes.json", outcomes)
    emit("table", table=table)
    finish(stage, {"table": table})


def evaluate_cell(kit: Kit, model: str, cell: Cell) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Figures of a model on a cell's held-out tasks, and the outcome of each task."""
    domain, effort = cell
    config = kit.recipe.evaluate
    stage = ("rl", *cell) if model == "experts" else (other_form(kit),) if model == "other" else MODELS[model]
    tasks = kit.tasks(domain, "heldout", config.tasks, "evaluate", config.seed)
    played = kit.play(kit.load(*stage), tasks, effort, f"evaluate/{config.seed}/{domain}/{effort}")
    tau = tau_of(kit)[cell]
    if model == "student":
        write_trajectories(kit.run.path / "trajectories" / f"{domain}-{effort}.parquet", played)
    return {**score(played, tau), **standard_errors(played, tau)}, outcomes_of(played, tau)


def outcomes_of(played: Sequence[Trajectory], tau: float) -> dict[str, list[float]]:
    """Per task, in order: passed within budget, passed, tokens; NaN-free, −1 where invalid."""
    return {
        "within": [
            -1.0 if t.result.status == "invalid" else float(t.result.status == "pass" and not is_over(t, tau)) for t in played
        ],
        "pass": [-1.0 if t.result.status == "invalid" else float(t.result.status == "pass") for t in played],
        "tokens": [float(t.new_tokens) for t in played],
    }


def standard_errors(played: Sequence[Trajectory], tau: float) -> dict[str, float]:
    within = np.array(
        [t.result.status == "pass" and not is_over(t, tau) for t in played if t.result.status != "invalid"], float
    )
    return {"within_se": float(within.std(ddof=1) / np.sqrt(len(within)))}


def other_form(kit: Kit) -> str:
    """Stage of the MOPD form that is not the run's own."""
    return "mopd-full" if kit.recipe.mopd.form == "sampled" else "mopd-sampled"


def load_table(kit: Kit) -> dict[str, dict[str, dict[str, float]]]:
    return read_json(kit.run.stage("evaluate") / "table.json")

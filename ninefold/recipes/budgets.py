"""What the cold-start model spends: b₀ of each task shape, τ of each cell, its score, and the re-warm samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

import numpy as np

from ninefold.agent.effort.budget import budget_of, estimate_budgets, over_budget
from ninefold.agent.effort.multipliers import calibrate
from ninefold.core.errors import VerifierError
from ninefold.core.store import read_json, write_json
from ninefold.core.types import Budget, Cell, Sample, Trajectory
from ninefold.data.samples import read_samples, sample_of_row, write_samples
from ninefold.recipes.jobs import Job, run_jobs
from ninefold.recipes.kit import Kit
from ninefold.recipes.training import finish


def measure_budgets(kit: Kit) -> None:
    """Stage `budgets`: budgets.json, tau.json, a score per cell, and re-warm samples per cell."""
    config, stage, emit = kit.recipe.budgets, kit.run.stage("budgets"), kit.run.log(stage="budgets")
    jobs = [Job(name="/".join(cell), call=cold_start, arguments=(kit, cell)) for cell in kit.cells]
    played: dict[str, list[Trajectory]] = run_jobs(jobs, kit.recipe.processes)
    budgets = estimate_budgets(t for name, ts in played.items() if name.endswith("/max") for t in ts)
    tau: dict[str, float] = {}
    scores: dict[str, dict[str, float]] = {}
    for domain, effort in kit.cells:
        name = f"{domain}/{effort}"
        tau[name] = calibrate(played[name], budgets, quantile=config.quantiles[domain][effort])
        budgeted = with_budgets(played[name], budgets)
        scores[name] = score(budgeted, tau[name])
        write_samples(stage / domain / f"{effort}.npz", rows_of([t for t in budgeted if is_within(t, tau[name])]))
        emit("cell", cell=name, tau=tau[name], **scores[name])
    write_json(stage / "budgets.json", {shape: asdict(budget) for shape, budget in budgets.items()})
    write_json(stage / "tau.json", tau)
    finish(stage, {"scores": scores})


def cold_start(kit: Kit, cell: Cell) -> list[Trajectory]:
    """The SFT model's attempts at a cell's train tasks."""
    domain, effort = cell
    tasks = kit.tasks(domain, "train", kit.recipe.of_each(domain, kit.recipe.budgets.tasks), "budgets")
    return kit.play(kit.load("sft"), tasks, effort, f"budgets/{domain}/{effort}")


def rewarm_samples(kit: Kit, cell: Cell) -> list[Sample]:
    """The cold-start model's correct samples that fit the cell's budget; perhaps none."""
    domain, effort = cell
    return read_samples(kit.run.stage("budgets") / domain / f"{effort}.npz")


def tau_of(kit: Kit) -> dict[Cell, float]:
    """τ of each cell as measured."""
    measured = read_json(kit.run.stage("budgets") / "tau.json")
    return {cell: measured["/".join(cell)] for cell in kit.cells}


def is_over(trajectory: Trajectory, tau: float) -> bool:
    """T(y) > τ·b₀(x)."""
    budget = trajectory.task.budget
    return budget is not None and over_budget(trajectory.spend, multiplier=tau, budget=budget)


def is_within(trajectory: Trajectory, tau: float) -> bool:
    """Whether it passed within its budget: what counts as correct."""
    return trajectory.passed and not is_over(trajectory, tau)


def score(trajectories: Sequence[Trajectory], tau: float) -> dict[str, float]:
    """A cell's figures over valid trajectories: pass rate, pass rate within budget, share over budget, tokens, n.

    Raises VerifierError where none is valid: a cell that nobody could judge has no score.
    """
    valid = [t for t in trajectories if t.valid]
    if not valid:
        reason = trajectories[0].result.detail if trajectories else "there was none"
        raise VerifierError(f"none of {len(trajectories)} attempts could be judged: {reason} (see `ninefold doctor`)")
    passed = np.array([t.passed for t in valid], float)
    over = np.array([is_over(t, tau) for t in valid], float)
    return {
        "pass": float(passed.mean()),
        "within": float((passed * (1 - over)).mean()),
        "over": float(over.mean()),
        "shaped": float(np.where(over > 0, -1.0, passed).mean()),
        "tokens": float(np.mean([t.new_tokens for t in valid])),
        "spend": float(np.mean([t.spend for t in valid])),
        "n": len(valid),
        "invalid": len(trajectories) - len(valid),
    }


def with_budgets(trajectories: Sequence[Trajectory], budgets: Mapping[str, Budget]) -> list[Trajectory]:
    return [replace(t, task=replace(t.task, budget=budget_of(t.task, budgets))) for t in trajectories]


def rows_of(trajectories: Sequence[Trajectory]) -> list[Sample]:
    """Every row of the valid trajectories, as supervised data."""
    return [sample_of_row(row, task=t.task.id, pictures=t.pictures) for t in trajectories if t.valid for row in t.rows]

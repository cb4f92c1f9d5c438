"""The experts' pooled trajectories: what the student is first trained on."""

from __future__ import annotations

from ninefold.core.errors import UserError
from ninefold.core.types import Cell, Sample
from ninefold.data.samples import write_samples
from ninefold.recipes.budgets import is_within, rows_of, tau_of
from ninefold.recipes.jobs import Job, run_jobs
from ninefold.recipes.kit import Kit
from ninefold.recipes.training import finish


def pool(kit: Kit) -> None:
    """Stage `pool`: samples.npz of correct trajectories within budget, of all experts."""
    stage, emit = kit.run.stage("pool"), kit.run.log(stage="pool")
    jobs = [Job(name="/".join(cell), call=pooled, arguments=(kit, cell)) for cell in kit.cells]
    by_cell: dict[str, list[Sample]] = run_jobs(jobs, kit.recipe.processes)
    samples = [sample for rows in by_cell.values() for sample in rows]
    if not samples:
        raise UserError(
            "no expert has a correct trajectory within its budget: nothing to pool (look at the RL stage's dev scores)"
        )
    write_samples(stage / "samples.npz", samples)
    counts = {name: len(rows) for name, rows in by_cell.items()}
    emit("samples", rows=len(samples), tokens=sum(len(s.ids) for s in samples), cells=counts)
    finish(stage, {"rows": counts})


def pooled(kit: Kit, cell: Cell) -> list[Sample]:
    """One expert's correct trajectories within budget, or all valid ones, on train tasks."""
    domain, effort = cell
    tasks = kit.tasks(domain, "train", kit.recipe.of_each(domain, kit.recipe.pool.rollouts), "pool", effort)
    played = kit.play(kit.load("rl", *cell), tasks, effort, f"pool/{domain}/{effort}")
    tau = tau_of(kit)[cell]
    return rows_of([t for t in played if is_within(t, tau)] if kit.recipe.pool.only_correct else played)

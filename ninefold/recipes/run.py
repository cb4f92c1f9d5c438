"""A whole run: stages in order, each complete or absent, so that the same call goes on where it was cut off."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ninefold import __version__
from ninefold.agent.env import family
from ninefold.core.config import to_toml
from ninefold.core.errors import UserError
from ninefold.core.events import SCHEMA_VERSION, Emit
from ninefold.core.store import Run, is_complete, recover_folder, write_atomic
from ninefold.core.types import EFFORTS, Cell
from ninefold.learn.parallel import run_parallel
from ninefold.model.presets import preset
from ninefold.recipes.budgets import measure_budgets
from ninefold.recipes.config import Recipe
from ninefold.recipes.draft import measure_acceptance, student_rollouts, train_draft
from ninefold.recipes.evaluate import evaluate, other_form
from ninefold.recipes.jobs import Job, run_jobs
from ninefold.recipes.kit import Kit
from ninefold.recipes.mopd import average_weights, distill
from ninefold.recipes.origin import import_released
from ninefold.recipes.pool import pool
from ninefold.recipes.pretrain import build_corpus, pretrain
from ninefold.recipes.rl import train_expert
from ninefold.recipes.sft import check_files, demonstrate, second_sft, sft
from ninefold.recipes.training import finish


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One step of a run: the folder of that name is complete once `call` has returned."""

    name: str
    call: Callable[[Kit], None]


def train_experts(kit: Kit) -> None:
    """Stage `rl`: the nine cells, side by side as far as each one's chain allows."""
    jobs = [
        Job(
            name="/".join(cell),
            call=train_expert,
            arguments=(kit, cell),
            after=before(kit.recipe, cell),
        )
        for effort in reversed(EFFORTS)
        for cell in kit.cells
        if cell[1] == effort
    ]
    results = run_jobs(jobs, kit.recipe.processes)
    finish(kit.run.stage("rl"), {"fell_back": [name for name, r in results.items() if r["fell_back"]]})


def before(recipe: Recipe, cell: Cell) -> tuple[str, ...]:
    """The cell that a cell's RL may start from."""
    previous = recipe.previous(cell[1])
    return () if previous is None else (f"{cell[0]}/{previous}",)


def import_weights(kit: Kit) -> None:
    """Stage `import`: the released weights as a Hugging Face folder."""
    assert kit.recipe.released is not None
    stage = kit.run.stage("import")
    import_released(kit.recipe.released, stage / "model")
    finish(stage)


def compare(kit: Kit) -> None:
    """Stage `compare`: the baselines that the student is shown beside."""
    average_weights(kit)
    if kit.recipe.mopd.compare:
        form = "full" if kit.recipe.mopd.form == "sampled" else "sampled"
        run_parallel(distill, kit.recipe.processes, kit, other_form(kit), form)
    finish(kit.run.stage("compare"))


def evaluate_all(kit: Kit) -> None:
    """Stage `evaluate`: all models on held-out tasks, and the draft's acceptance."""
    if is_complete(kit.run.stage("draft")):
        measure_acceptance(kit)
    evaluate(kit)


STAGES: tuple[Stage, ...] = (
    Stage(name="import", call=import_weights),
    Stage(name="corpus", call=build_corpus),
    Stage(name="pretrain", call=lambda kit: run_parallel(pretrain, kit.recipe.processes, kit)),
    Stage(name="demonstrations", call=demonstrate),
    Stage(name="sft", call=lambda kit: run_parallel(sft, kit.recipe.processes, kit)),
    Stage(name="budgets", call=measure_budgets),
    Stage(name="rl", call=train_experts),
    Stage(name="pool", call=pool),
    Stage(name="pooled", call=lambda kit: run_parallel(second_sft, kit.recipe.processes, kit)),
    Stage(name="mopd", call=lambda kit: run_parallel(distill, kit.recipe.processes, kit, "mopd", kit.recipe.mopd.form)),
    Stage(name="compare", call=compare),
    Stage(name="rollouts", call=student_rollouts),
    Stage(name="draft", call=lambda kit: run_parallel(train_draft, kit.recipe.processes, kit)),
    Stage(name="evaluate", call=evaluate_all),
)


FROM_NOTHING = ("corpus", "pretrain", "rollouts", "draft")
"""Stages of a run that pre-trains; a draft is made from the layer that predicts a second token, which only K3 has."""


def stages_of(recipe: Recipe) -> list[Stage]:
    """The recipe's stages, in order."""
    left_out = ("import",) if recipe.released is None else FROM_NOTHING
    return [stage for stage in STAGES if stage.name not in left_out]


def run_recipe(recipe: Recipe, run: Run, *, until: str | None = None) -> None:
    """All stages that are not complete, in order; stops behind the stage `until` where one is named."""
    kit = check(recipe, run)
    with run.locked():
        write_atomic(run.config, to_toml(recipe))
        announce(run, recipe)
        emit = run.log()
        for domain, reason in kit.left_out.items():
            emit("note", text=f"{domain} is left out of this run: {reason}")
        for stage in stages_of(recipe):
            recover_folder(run.stage(stage.name))
            if not is_complete(run.stage(stage.name)):
                with reported(emit, stage.name):
                    stage.call(kit)
            if stage.name == until:
                return
        emit("run.finish")


def check(recipe: Recipe, run: Run) -> Kit:
    """The run's tools. Raises UserError for what the recipe asks for and does not exist, before anything is written."""
    kit = Kit(recipe=recipe, run=run)
    if not kit.families:
        raise UserError("families names none: a run needs at least one, e.g. families.general.arithmetic=[0]")
    recipe.harness.sampler()
    blind = recipe.released is not None or preset(recipe.preset).vision is None
    if blind:
        check_blind(kit)
    if not is_complete(run.stage("demonstrations")):
        check_files(recipe.sft, blind=blind)
    return kit


def check_blind(kit: Kit) -> None:
    """Raise UserError where a family shows pictures: the model reads none."""
    for domain, chosen in kit.recipe.families.items():
        for name, levels in chosen.items():
            if family(name).generate("train", levels[0], 0).pictures:
                where, model = f"families.{domain}.{name}", kit.recipe.preset
                raise UserError(f"{where} shows pictures, and preset {model} reads none: set preset=nano-vision")


def announce(run: Run, recipe: Recipe, **more: Any) -> None:
    """Log what a run is started with."""
    stages = [stage.name for stage in stages_of(recipe)]
    values = recipe.model_dump(mode="json")
    run.log()("run.start", schema=SCHEMA_VERSION, version=__version__, recipe=values, stages=stages, **more)


@contextmanager
def reported(emit: Emit, stage: str) -> Iterator[None]:
    """Log a stage's start and, if it comes to it, its end with what it took."""
    emit("stage.start", stage=stage)
    begun, used = time.monotonic(), cpu_seconds()
    yield
    emit("stage.finish", stage=stage, wall=time.monotonic() - begun, cpu=cpu_seconds() - used, peak_mb=peak_mb())


def cpu_seconds() -> float:
    """CPU seconds of this process and of its children that have ended."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def peak_mb() -> float:
    """Largest resident set of any one process so far, in MB."""
    return max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024

"""The draft: from the student's MTP layer, trained on the student's own rollouts to be accepted by it (report, draft)."""

from __future__ import annotations

from functools import partial

import torch

from ninefold.core.errors import UserError
from ninefold.core.types import Batch, Cell, Sample
from ninefold.data.samples import read_samples, write_samples
from ninefold.learn.batch import micro_batches, shards, shuffled_batches
from ninefold.learn.loss.draft import DraftConfig as DraftLossConfig
from ninefold.learn.loss.draft import draft_loss
from ninefold.learn.loss.outcome import add_metrics
from ninefold.learn.optim.schedule import ScheduleConfig
from ninefold.learn.parallel import World
from ninefold.learn.trainer import Trainer
from ninefold.model.draft import Draft
from ninefold.model.k3 import K3, sight_in
from ninefold.recipes.budgets import rows_of
from ninefold.recipes.jobs import Job, run_jobs
from ninefold.recipes.kit import Kit
from ninefold.recipes.training import finish, frozen, train, trainer_config

DRAFT = "draft.safetensors"


def student_rollouts(kit: Kit) -> None:
    """Stage `rollouts`: samples.npz of the student's valid attempts at train tasks of every cell, right or wrong."""
    stage = kit.run.stage("rollouts")
    jobs = [Job(name="/".join(cell), call=rolled, arguments=(kit, cell)) for cell in kit.cells]
    samples = [sample for rows in run_jobs(jobs, kit.recipe.processes).values() for sample in rows]
    if not samples:
        raise UserError("the draft has nothing to learn from: draft.rollouts must give every cell at least one valid rollout")
    write_samples(stage / "samples.npz", samples)
    finish(stage)


def rolled(kit: Kit, cell: Cell) -> list[Sample]:
    """One cell's share of them."""
    domain, effort = cell
    count = kit.recipe.draft.rollouts // len(kit.cells)
    tasks = kit.tasks(domain, "train", count, "draft", effort)
    return rows_of(kit.play(kit.load("mopd"), tasks, effort, f"draft/{domain}/{effort}"))


def target_of(kit: Kit) -> K3:
    """The student, which the draft proposes for."""
    student = kit.load("mopd")
    assert isinstance(student, K3), "only K3 has the layer that a draft is made of"
    return student


def train_draft(world: World, kit: Kit) -> None:
    """Stage `draft`, on every rank: unrolled over seven steps on its own outputs, by the LK loss; the student is frozen."""
    config, stage = kit.recipe.draft, kit.run.stage("draft")
    samples = read_samples(kit.run.stage("rollouts") / "samples.npz")
    student = target_of(kit)
    frozen(student)
    draft = Draft(student)
    epochs = -(-config.steps * config.batch_tokens // sum(len(s.ids) for s in samples))
    plan = list(shuffled_batches(samples, config.batch_tokens, epochs=epochs, seed=kit.recipe.seed))[: config.steps]
    trainer = Trainer(
        draft, trainer_config(config.step_sizes, len(plan), ScheduleConfig(kind="cosine", warmup=0.05)), world=world
    )

    def batches(step: int) -> list[Batch]:
        return micro_batches(shards(plan[step], world.size)[world.rank], 2 * config.batch_tokens, sight_in(student))

    loss = partial(draft_loss, target=student, config=DraftLossConfig(steps=config.unroll))
    train(trainer, stage, batches, loss, kit.run.log(stage="draft"), save_every=config.save_every)
    if world.rank == 0:
        draft.save(stage / DRAFT)
        finish(stage)


def load_draft(kit: Kit) -> Draft:
    """The draft of the student."""
    return Draft.open(kit.run.stage("draft") / DRAFT, target_of(kit))


@torch.no_grad()
def measure_acceptance(kit: Kit) -> None:
    """Stage `acceptance`: the probability, position by position, that speculative sampling at temperature 1 takes the
    draft's token, on the student's rollouts of held-out tasks."""
    config, stage = kit.recipe.evaluate, kit.run.stage("acceptance")
    student, draft = target_of(kit), load_draft(kit)
    samples = [
        sample
        for domain, effort in kit.cells
        for sample in rows_of(
            kit.play(
                student, kit.tasks(domain, "heldout", config.draft_tasks, "acceptance"), effort, f"acceptance/{domain}/{effort}"
            )
        )
    ]
    parts = [
        draft_loss(draft, batch, student, DraftLossConfig(steps=kit.recipe.draft.unroll)).metrics
        for batch in micro_batches(samples, kit.recipe.draft.batch_tokens, sight_in(student))
    ]
    figures = {name.removeprefix("draft/"): mean.value for name, mean in add_metrics(parts).items() if name != "loss"}
    kit.run.log(stage="draft")("acceptance", **figures)
    finish(stage, figures)

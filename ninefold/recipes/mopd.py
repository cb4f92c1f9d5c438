"""Multi-teacher on-policy distillation: the student's own rollouts at every effort, scored by the expert of their cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from ninefold.core.errors import UserError
from ninefold.core.seeds import seed_of
from ninefold.core.types import Batch, Cell, Effort, Sample, Task, Trajectory
from ninefold.data.samples import sample_of_row
from ninefold.learn.batch import micro_batches
from ninefold.learn.loss.distill import DistillConfig, distill_loss
from ninefold.learn.loss.outcome import Loss
from ninefold.learn.optim.schedule import ScheduleConfig
from ninefold.learn.parallel import World
from ninefold.learn.trainer import Trainer
from ninefold.model.k3 import sight_in
from ninefold.recipes.kit import Kit
from ninefold.recipes.origin import Policy
from ninefold.recipes.training import finish, frozen, train, trainer_config
from ninefold.rollout.play import lineup, play


def distill(world: World, kit: Kit, name: str, form: str) -> None:
    """Stage `name`, on every rank: MOPD of the pooled student in the given form (`sampled` or `full`)."""
    config, stage, emit = kit.recipe.mopd, kit.run.stage(name), kit.run.log(stage=name)
    student = kit.load("pooled")
    schedule = ScheduleConfig(kind="cosine", warmup=config.warmup, floor=config.floor)
    trainer = Trainer(student, trainer_config(config.step_sizes, config.steps, schedule), world=world)
    distillation = Distillation(kit, trainer, form, name)
    train(trainer, stage, distillation.batches, distillation.loss, emit, save_every=config.save_every)
    if world.rank == 0:
        kit.save(student, stage)
        finish(stage, {"form": form})


class Distillation:
    """What a step needs: the student's rollouts of this rank, each batch with its teacher."""

    def __init__(self, kit: Kit, trainer: Trainer[Policy], form: str, name: str) -> None:
        self.kit, self.trainer, self.form, self.name = kit, trainer, form, name
        self.teachers = load_teachers(kit, trainer.model)
        self.engine = kit.engine(trainer.model)
        config = kit.recipe.mopd
        least = trainer.world.size * sum(kit.recipe.of_each(domain, 1) for domain, _ in kit.cells)
        self.share = config.rollouts // least
        """Rollouts of this rank in each family of each cell, a step."""
        if not self.share:
            raise UserError(f"mopd.rollouts is {config.rollouts}; one of each family, effort and process takes {least}")
        self.config = DistillConfig(**config.policy.model_dump(), r_max=config.clip)
        self._pairs: list[tuple[Batch, Policy]] = []

    def batches(self, step: int) -> list[Batch]:
        """Roll out this rank's share of the step, cell by cell."""
        self.engine.load(self.trainer.weights(), self.trainer.version)
        self._pairs = [
            (batch, self.teachers[cell])
            for cell, played in self.roll(step).items()
            for batch in micro_batches(samples_of(played), self.kit.recipe.mopd.micro_tokens, sight_in(self.trainer.model))
        ]
        return [batch for batch, _ in self._pairs]

    def loss(self, student: Policy, batch: Batch) -> Loss:
        teacher = next(teacher for known, teacher in self._pairs if known is batch)
        return distill_loss(student, batch, teacher, self.form, self.config)

    def roll(self, step: int) -> dict[Cell, list[Trajectory]]:
        """Fresh train tasks of every cell, each with its effort stated; all play side by side."""
        world, kit = self.trainer.world, self.kit
        turn = step * world.size + world.rank
        prompts: list[tuple[Task, Effort]] = [
            (kit.task(domain, "train", turn * count + i, "mopd", effort), effort)
            for domain, effort in kit.cells
            for count in [kit.recipe.of_each(domain, self.share)]
            for i in range(count)
        ]
        slots = lineup(prompts, seed=seed_of(kit.recipe.seed, self.name, step, world.rank), name=f"{self.name}/{turn}/")
        played = play(slots, engine=self.engine, scene=kit.scene, width=kit.recipe.engine.rows)
        by_cell: dict[Cell, list[Trajectory]] = {cell: [] for cell in kit.cells}
        for trajectory in played:
            if trajectory.valid:
                by_cell[trajectory.task.domain, trajectory.effort].append(trajectory)
        return {cell: members for cell, members in by_cell.items() if members}


def samples_of(played: list[Trajectory]) -> list[Sample]:
    """Rows of trajectories with the log-probabilities they were sampled at."""
    return [
        replace(sample_of_row(row, task=t.task.id, pictures=t.pictures), streams={"old_logprob": row.logprobs})
        for t in played
        for row in t.rows
    ]


def load_teachers(kit: Kit, student: Policy) -> dict[Cell, Policy]:
    """The experts by (domain, effort), forward only. Raises UserError where one has another vocabulary."""
    teachers: dict[Cell, Policy] = {}
    for cell in kit.cells:
        teacher = kit.load("rl", *cell)
        theirs, ours = teacher.config.vocab_size, student.config.vocab_size
        if theirs != ours:
            name = "/".join(cell)
            raise UserError(
                f"teacher {name} has {theirs} tokens, the student {ours}: distil from experts of the same tokenizer"
            )
        frozen(teacher)
        teachers[cell] = teacher
    return teachers


def average_weights(kit: Kit) -> None:
    """Stage `average`: the plain mean of the experts' weights, the baseline that distillation must beat."""
    states: list[Mapping[str, torch.Tensor]] = [kit.load("rl", *cell).state_dict() for cell in kit.cells]
    model = kit.load("sft")
    mean: dict[str, Any] = {name: torch.stack([s[name] for s in states]).mean(0) for name in states[0]}
    model.load_state_dict(mean)
    stage = kit.run.stage("average")
    kit.save(model, stage)
    finish(stage)

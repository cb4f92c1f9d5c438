"""Reinforcement learning of one cell: the whole data flow from tasks to published weights (report, RL; spec 03).

task → slot → episode (harness, chat, engine, world) → verifier → reward (budget override) → group → advantages →
samples → batches → loss, optimiser → weights → engine
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from ninefold.agent.effort.multipliers import Multipliers
from ninefold.agent.reward.shape import Cohort, outcome_filter, reward_group
from ninefold.core.events import Emit
from ninefold.core.protocols import Engine
from ninefold.core.seeds import seed_of
from ninefold.core.store import is_complete, read_json, recover_folder, write_folder, write_json
from ninefold.core.types import Cell, Effort, Group, Sample, Task
from ninefold.data.samples import shown
from ninefold.learn.batch import micro_batches, shuffled_batches
from ninefold.learn.loss.advantage import advantages
from ninefold.learn.loss.policy import policy_loss
from ninefold.learn.loss.sft import sft_loss
from ninefold.learn.optim.schedule import ScheduleConfig
from ninefold.learn.trainer import Trainer
from ninefold.model.hf import SHARED_ROW, HfModel
from ninefold.model.k3 import sight_in
from ninefold.recipes.budgets import rewarm_samples, score, tau_of
from ninefold.recipes.kit import Kit
from ninefold.recipes.origin import Policy
from ninefold.recipes.training import STATE, finish, trainer_config
from ninefold.rollout.scheduler import Rollout, RolloutConfig


def train_expert(kit: Kit, cell: Cell) -> dict[str, Any]:
    """Stage `rl/<domain>/<effort>`: the cell's expert and what came of it. Goes on where an earlier call was cut off."""
    stage, emit = kit.run.stage("rl", *cell), kit.run.log(stage="rl", cell="/".join(cell))
    if is_complete(stage):
        return read_json(stage / "results.json")
    if not is_complete(stage / "start"):
        write_folder(stage / "start", lambda folder: prepare(kit, cell, folder, emit))
    start = read_json(stage / "start" / "start.json")
    if start["dev"]["pass"] < kit.recipe.rl.gate:
        emit("note", text=f"no RL: the start passes {start['dev']['pass']:.2f}, under the gate {kit.recipe.rl.gate}")
    else:
        Loop(kit, cell, stage, emit).run()
    results = conclude(kit, cell, stage, start)
    emit("expert", **results)
    finish(stage, results)
    return results


def prepare(kit: Kit, cell: Cell, folder: Path, emit: Emit) -> None:
    """The model that RL of the cell starts from: the SFT model or the previous effort's expert, as it is or re-warmed on the
    cold-start model's correct samples within budget, whichever is best. [ours] As it is it may start over every budget."""
    domain, effort = cell
    models: dict[str, tuple[str, ...]] = {"sft": ("sft",)}
    if (previous := kit.recipe.previous(effort)) is not None:
        models["previous"] = ("rl", domain, previous)
    warmings = (False, True) if previous is not None and kit.recipe.rl.rewarm_epochs else (False,)
    scores: dict[str, dict[str, float]] = {}
    chosen, start = "", None
    for warm, (name, place) in product(warmings, models.items()):
        model = kit.load(*place)
        if warm:
            name = f"{name}_warm"
            rewarm(kit, cell, model, emit)
        scores[name] = dev_score(kit, cell, model)
        if start is None or scores[name]["shaped"] > scores[chosen]["shaped"]:
            chosen, start = name, model
    assert start is not None
    emit("start", chosen=chosen, **{f"dev_{name}": score["shaped"] for name, score in scores.items()})
    kit.save(start, folder)
    write_json(folder / "start.json", {"chosen": chosen, "sft": scores["sft"], "dev": scores[chosen]})


def rewarm(kit: Kit, cell: Cell, model: Policy, emit: Emit) -> None:
    """A short SFT on what the budget allows; none where the cold-start model never passed within it."""
    config = kit.recipe.rl
    samples = rewarm_samples(kit, cell)
    if not samples:
        emit("note", text="no re-warm: the SFT model has no correct sample within this cell's budget")
        return
    plan = list(shuffled_batches(samples, config.rewarm_batch_tokens, epochs=config.rewarm_epochs, seed=kit.recipe.seed))
    schedule = ScheduleConfig(kind="cosine", warmup=0.05)
    trainer = Trainer(model, trainer_config(config.rewarm_step_sizes, len(plan), schedule))
    losses = [trainer.step(micro_batches(chosen, config.micro_tokens, sight_in(model)), sft_loss)["loss"] for chosen in plan]
    emit("rewarm", samples=len(samples), steps=len(plan), first_loss=losses[0], last_loss=losses[-1])


class Loop:
    """The iterations of one cell, resumable between any two of them."""

    def __init__(self, kit: Kit, cell: Cell, stage: Path, emit: Emit, *, engine: Engine | None = None) -> None:
        """`engine` generates in place of the native one."""
        config = kit.recipe.rl
        self.kit, self.cell, self.stage, self.emit, self.config = kit, cell, stage, emit, config
        self.model = kit.load("rl", *cell, "start")
        schedule = ScheduleConfig(kind="constant", warmup=config.warmup)
        self.trainer = Trainer(self.model, trainer_config(config.step_sizes, config.steps, schedule))
        self.engine = engine or kit.engine(self.model)
        self.rollout = Rollout(
            engine=self.engine,
            source=self.prompt,
            scene=kit.scene,
            config=RolloutConfig(prompts=kit.recipe.of_each(cell[0], config.prompts), samples=config.samples, lam=config.lam),
            seed=seed_of(kit.recipe.seed, "rl", *cell),
            name=f"{'/'.join(cell)}/",
        )
        self.measured = Multipliers(values=tau_of(kit))
        self.trained: list[str] = []
        """Group ids in the order they were learned from."""
        self.dev: list[dict[str, float]] = []

    def run(self) -> None:
        self.restore()
        while self.trainer.steps_done < self.config.steps:
            self.iterate()
            done, last = self.trainer.steps_done, self.trainer.steps_done == self.config.steps
            if done % self.config.evaluate_every == 0 or last:
                self.evaluate()
            if done % self.config.save_every == 0 or last:
                write_folder(self.stage / STATE, self.save)

    def prompt(self, index: int) -> tuple[Task, Effort]:
        """The cell's `index`-th prompt."""
        domain, effort = self.cell
        return self.kit.task(domain, "train", index, "rl", effort), effort

    def iterate(self) -> None:
        """Publish, roll out, reward, learn."""
        self.engine.load(self.trainer.weights(), self.trainer.version)
        groups = self.rollout.iterate()
        tau = self.measured.changed(self.kit.controls()).of(self.cell)
        cohorts = [reward_group(group, multiplier=tau) for group in groups]
        if self.config.drop_constant_outcomes:
            cohorts = outcome_filter(cohorts)
        moving, still = samples_of(cohorts, self.trainer.version)
        share = SHARED_ROW if isinstance(self.model, HfModel) else self.config.micro_tokens
        batches = micro_batches(moving, self.config.micro_tokens, sight_in(self.model), share=share)
        loss = partial(policy_loss, config=self.config.policy)
        metrics = self.trainer.step(batches, loss, still_tokens=sum(int(s.mask.sum()) for s in still))
        self.trained += [group.id for group in groups]
        left = {"waiting": self.rollout.waiting, "paused": self.rollout.paused}
        self.emit("step", **metrics, **describe(groups, cohorts), **left, tau=tau, total=self.config.steps)

    def evaluate(self) -> None:
        """Score on dev tasks, and keep the best weights so far."""
        figures = {"step": float(self.trainer.steps_done), **dev_score(self.kit, self.cell, self.model)}
        self.emit("dev", **figures)
        if not self.dev or figures["shaped"] >= max(f["shaped"] for f in self.dev):
            write_folder(self.stage / "best", lambda folder: self.kit.save(self.model, folder))
        self.dev.append(figures)

    def save(self, folder: Path) -> None:
        self.trainer.save(folder / "trainer")
        (folder / "rollout.bin").write_bytes(self.rollout.save())
        write_json(folder / "loop.json", {"trained": self.trained, "dev": self.dev})

    def restore(self) -> None:
        state = self.stage / STATE
        for folder in (state, self.stage / "best"):
            recover_folder(folder)
        if is_complete(state):
            self.trainer.load(state / "trainer")
            self.rollout.load((state / "rollout.bin").read_bytes())
            loop = read_json(state / "loop.json")
            self.trained, self.dev = loop["trained"], loop["dev"]


def samples_of(cohorts: Sequence[Cohort], version: int) -> tuple[list[Sample], list[Sample]]:
    """Rows with their streams: every token of a trajectory has its trajectory's advantage, r − r̄ of its group.

    Second come the rows that cannot move the weights, to be counted only: without advantage, and sampled wholly by the
    weights of `version`, where ρ = 0 and so the pull's gradient is 0 too.
    """
    moving: list[Sample] = []
    still: list[Sample] = []
    for cohort in cohorts:
        advantage_n = advantages([m.reward for m in cohort.members], [cohort.group.id] * len(cohort.members))
        for member, advantage in zip(cohort.members, advantage_n):
            for row in member.trajectory.rows:
                streams = {"advantage": np.full(len(row), advantage, np.float32), "old_logprob": row.logprobs}
                seen = shown(row, member.trajectory.pictures)
                sample = Sample(ids=row.ids, mask=row.loss_mask, streams=streams, task=cohort.group.task.id, pictures=seen)
                fresh = bool((row.versions[row.sampled_mask] == version).all())
                (still if advantage == 0 and fresh else moving).append(sample)
    return moving, still


def describe(groups: Sequence[Group], cohorts: Sequence[Cohort]) -> dict[str, float]:
    """Figures of the dispatched groups, a vote a trajectory; `reward`, `outcome` and `over` of the valid ones."""
    members = [member for cohort in cohorts for member in cohort.members]
    trajectories = [t for group in groups for t in group.trajectories]
    figures = {
        "reward": [m.reward for m in members],
        "outcome": [m.outcome for m in members],
        "over": [float(m.over) for m in members],
        "new_tokens": [float(t.new_tokens) for t in trajectories],
        "turns": [float(len(t.turns)) for t in trajectories],
        "resumed": [float(t.resumes > 0) for t in trajectories],
        "invalid": [float(not t.valid) for t in trajectories],
        "truncated": [float(t.stop in ("tokens", "context", "turns")) for t in trajectories],
    }
    means = {f"dispatched/{name}": float(np.mean(values)) if values else 0.0 for name, values in figures.items()}
    return {**means, "dispatched/groups": float(len(groups))}


def dev_score(kit: Kit, cell: Cell, model: Policy) -> dict[str, float]:
    """The cell's figures on its dev tasks."""
    domain, effort = cell
    tasks = kit.tasks(domain, "dev", kit.recipe.rl.dev_tasks, "dev")
    return score(kit.play(model, tasks, effort, f"dev/{domain}/{effort}"), tau_of(kit)[cell])


def conclude(kit: Kit, cell: Cell, stage: Path, start: dict[str, Any]) -> dict[str, Any]:
    """The expert: the best weights by dev score, or the SFT model where RL made the cell worse; saved as the stage's model."""
    loop = read_json(stage / STATE / "loop.json") if is_complete(stage / STATE) else {"trained": [], "dev": []}
    # The last of equals: so does `evaluate` choose the weights that it keeps.
    best = max(reversed(loop["dev"]), key=lambda f: f["shaped"], default=None)
    fell_back = best is None or best["shaped"] < start["sft"]["shaped"]
    kit.save(kit.load("sft") if fell_back else kit.load("rl", *cell, "best"), stage)
    return {"fell_back": fell_back, "chosen": start["chosen"], "sft": start["sft"], "dev": best, "trained": loop["trained"]}

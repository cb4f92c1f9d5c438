"""λ = 1 is the synchronous loop bit for bit; λ < 1 trains on trajectories of several policies and says so."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ninefold.agent.reward.shape import Cohort, reward_group
from ninefold.core.seeds import seed_of
from ninefold.core.store import Run
from ninefold.core.types import Cell, Effort, Group, Task, Trajectory
from ninefold.learn.batch import micro_batches
from ninefold.learn.loss.policy import policy_loss
from ninefold.learn.optim.schedule import ScheduleConfig
from ninefold.learn.trainer import Trainer
from ninefold.model.k3 import K3
from ninefold.recipes.budgets import tau_of
from ninefold.recipes.config import StepSizes
from ninefold.recipes.kit import Kit
from ninefold.recipes.rl import Loop, samples_of
from ninefold.recipes.training import trainer_config
from ninefold.rollout.play import lineup, play
from tests.recipes.small import small

CELL: Cell = ("general", "max")
STEPS = 3


def kit_with(whole: Run, **changes: Any) -> Kit:
    """Tools of the small run under another RL configuration; the run itself is only read."""
    recipe = small().model_copy(update={"rl": small().rl.model_copy(update={"steps": STEPS, **changes})})
    return Kit(recipe=recipe, run=whole)


def silent(kind: str, /, **fields: Any) -> None:
    """Report nothing."""


def rewarded(members: Sequence[Trajectory], tau: float) -> Cohort:
    first = members[0]
    group = Group(id=first.group, task=first.task, effort=first.effort, trajectories=tuple(members))
    return reward_group(group, multiplier=tau)


def synchronous(kit: Kit) -> tuple[K3, list[str]]:
    """The synchronous algorithm, plainly: all samples of N prompts are played to their end, then one step is taken."""
    domain, effort = CELL
    config, tau = kit.recipe.rl, tau_of(kit)[CELL]
    model = kit.load("rl", *CELL, "start")
    schedule = ScheduleConfig(kind="constant", warmup=config.warmup)
    trainer = Trainer(model, trainer_config(config.step_sizes, config.steps, schedule))
    engine = kit.engine(model)
    trained: list[str] = []
    for step in range(STEPS):
        engine.load(trainer.weights(), trainer.version)
        first, end = step * config.prompts, (step + 1) * config.prompts
        prompts: list[tuple[Task, Effort]] = [(kit.task(domain, "train", n, "rl", effort), effort) for n in range(end)]
        slots = lineup(prompts, samples=config.samples, seed=seed_of(kit.recipe.seed, "rl", *CELL), name=f"{domain}/{effort}/")
        played = play(slots[first * config.samples :], engine=engine, scene=kit.scene)
        groups = [played[n : n + config.samples] for n in range(0, len(played), config.samples)]
        trained += [group[0].group for group in groups]
        moving, still = samples_of([rewarded(group, tau) for group in groups], trainer.version)
        counted = sum(int(sample.mask.sum()) for sample in still)
        loss = partial(policy_loss, config=config.policy)
        trainer.step(micro_batches(moving, config.micro_tokens, share=config.micro_tokens), loss, still_tokens=counted)
    return model, trained


def test_full_lambda_equals_the_synchronous_loop_bit_for_bit(whole: Run, tmp_path: Path) -> None:
    kit = kit_with(whole, lam=1.0)
    loop = Loop(kit, CELL, tmp_path, silent)
    for _ in range(STEPS):
        loop.iterate()
    model, trained = synchronous(kit)
    ours, theirs = loop.model.state_dict(), model.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert loop.trained == trained
    start = kit.load("rl", *CELL, "start").state_dict()
    assert any(not torch.equal(start[name], ours[name]) for name in start), "the steps changed something"


def test_partial_rollout_trains_on_several_policies_and_says_so(whole: Run, tmp_path: Path) -> None:
    steps: list[dict[str, Any]] = []
    kit = kit_with(whole, lam=0.4, prompts=6, step_sizes=StepSizes(muon=0.05, adamw=0.02))
    loop = Loop(kit, CELL, tmp_path, lambda kind, /, **fields: steps.append(fields))
    for _ in range(STEPS):
        loop.iterate()
    assert any(step["paused"] > 0 for step in steps)
    fresh = [step for step in steps if step["dispatched/resumed"] == 0 and "policy/rho_abs" in step]
    assert all(step["policy/rho_abs"] < 1e-5 and step["policy/outside_share"] == 0 for step in fresh)
    stale = [step for step in steps if step["dispatched/resumed"] > 0]
    assert stale
    assert any(step["policy/rho_abs"] > 1e-3 and step["policy/pull"] > 0 for step in stale)
    assert any(step["policy/outside_share"] > 0 for step in stale)
    assert {f"dispatched/{name}" for name in ("reward", "outcome", "over", "new_tokens")} <= steps[0].keys()
    assert not {"reward", "outcome", "over", "new_tokens"} & steps[0].keys(), "every such figure names its cohort"

    loop.engine.load(loop.trainer.weights(), loop.trainer.version)
    groups = loop.rollout.iterate()
    versions = [np.unique(row.versions[row.sampled_mask]) for g in groups for t in g.trajectories for row in t.rows]
    assert any(len(found) > 1 for found in versions), "a resumed trajectory holds tokens of several policies"
    assert max(int(found.max()) for found in versions) == loop.trainer.version


def test_rows_left_out_of_the_loss_have_no_gradient(whole: Run, tmp_path: Path) -> None:
    """Rows without advantage, sampled by the very weights that learn, only count: with them the gradient is the same."""
    kit = kit_with(whole, lam=1.0, prompts=8)
    norms: list[float] = []
    for left_out in (True, False):
        loop = Loop(kit, CELL, tmp_path, silent)
        loop.engine.load(loop.trainer.weights(), loop.trainer.version)
        cohorts = [reward_group(group, multiplier=tau_of(kit)[CELL]) for group in loop.rollout.iterate()]
        moving, still = samples_of(cohorts, loop.trainer.version)
        assert moving
        assert still
        batches = micro_batches(moving if left_out else [*moving, *still], kit.recipe.rl.micro_tokens)
        counted = sum(int(sample.mask.sum()) for sample in still) if left_out else 0
        metrics = loop.trainer.step(batches, partial(policy_loss, config=kit.recipe.rl.policy), still_tokens=counted)
        norms.append(metrics["grad_norm"])
    assert norms[0] > 0
    assert abs(norms[0] - norms[1]) < 1e-4 * norms[1]

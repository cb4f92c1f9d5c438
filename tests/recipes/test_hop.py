"""One task walked from the store to the gradient through the recipe's own functions, every hop checked."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ninefold.agent.reward.shape import reward_group
from ninefold.core.layout import DocLayout
from ninefold.core.protocols import Request, ScriptedPolicy, Style
from ninefold.core.seeds import seed_of
from ninefold.core.store import Run, write_json
from ninefold.core.types import Cell, IntArray, Slot, Trajectory
from ninefold.data.tasks.store import read_tasks, write_tasks
from ninefold.engine.scripted import ScriptedEngine
from ninefold.learn.batch import micro_batches
from ninefold.learn.loss.policy import PolicyConfig, policy_loss
from ninefold.model.k3 import K3
from ninefold.recipes.config import Recipe
from ninefold.recipes.kit import Kit
from ninefold.recipes.rl import Loop, samples_of
from ninefold.rollout.demonstrate import demonstrate, replay
from ninefold.rollout.play import lineup
from tests.recipes.small import small

CELL: Cell = ("general", "low")
PROMPTS, SAMPLES = 2, 3
TAU, B0 = 1.5, 8.0
POLICY = PolicyConfig(low=-50.0, high=0.3, tau=0.01)
"""Wide below: the untrained model gives demonstrated tokens little probability, and they shall pass the clip."""


@pytest.fixture
def recipe() -> Recipe:
    config = small().rl.model_copy(update={"prompts": PROMPTS, "samples": SAMPLES, "lam": 1.0, "policy": POLICY})
    return small().model_copy(update={"rl": config})


@pytest.fixture
def budgeted(whole: Run, recipe: Recipe, tmp_path: Path) -> Kit:
    """A copy of the small run in which every task has the same b₀, and τ of the cell is set as in a running job."""
    run = Run(path=tmp_path / "run")
    shutil.copytree(whole.path, run.path)
    shapes = [f"arithmetic/{length}" for length in range(20)]
    write_json(run.stage("budgets") / "budgets.json", {shape: {"tokens": B0, "samples": 1} for shape in shapes})
    write_json(run.controls, {f"tau_b.{'.'.join(CELL)}": TAU})
    return Kit(recipe=recipe, run=run)


@pytest.fixture
def played(budgeted: Kit, tmp_path: Path) -> list[Trajectory]:
    """Tasks out of a store, played by demonstrators: in each group one terse, one that thinks too long, one that errs."""
    domain, effort = CELL
    tasks = [budgeted.task(domain, "train", n, "rl", effort) for n in range(PROMPTS)]
    write_tasks(tmp_path / "tasks.jsonl", tasks)
    stored = read_tasks(tmp_path / "tasks.jsonl", "train")
    assert stored == tasks
    assert all(task.budget is not None and task.budget.tokens == B0 for task in stored)

    def policy(slot: Slot) -> ScriptedPolicy:
        family = budgeted.families[slot.task.family]
        if slot.index == 2:
            return family.hacks(slot.task)["verdict"]
        return family.demonstrate(slot.task, Style(effort="max" if slot.index == 1 else "low", seed=slot.seed))

    seed = seed_of(budgeted.recipe.seed, "rl", *CELL)
    slots = lineup([(task, effort) for task in stored], samples=SAMPLES, seed=seed, name=f"{'/'.join(CELL)}/")
    return demonstrate(slots, policy, budgeted.scene)


def loop_for(kit: Kit, respond: Callable[[Request], IntArray], log: list[dict[str, Any]]) -> Loop:
    def emit(kind: str, /, **fields: Any) -> None:
        log.append({"kind": kind, **fields})

    return Loop(kit, CELL, kit.run.stage("hop"), emit, engine=ScriptedEngine(respond))


def objective(model: K3, trajectories: list[Trajectory], rewards: list[float]) -> tuple[torch.Tensor, int]:
    """The report's objective with its sums written out: one group of SAMPLES after the other, one row at a time."""
    total, tokens = torch.zeros(()), 0
    for n, (trajectory, reward) in enumerate(zip(trajectories, rewards)):
        group = rewards[n // SAMPLES * SAMPLES :][:SAMPLES]
        advantage = reward - sum(group) / SAMPLES
        for row in trajectory.rows:
            ids_T = torch.from_numpy(row.ids.astype(np.int64))
            logprob_TV = model.logits(model(ids_T, DocLayout.of([len(row)])).final_TD).log_softmax(-1)
            for t in np.flatnonzero(row.sampled_mask).tolist():
                rho = logprob_TV[t - 1, ids_T[t]] - float(row.logprobs[t])
                gain = rho.exp() * advantage if POLICY.low <= rho.item() <= POLICY.high else 0.0
                total = total + gain - POLICY.tau * rho.square()
                tokens += 1
    return total / tokens, tokens


def test_a_task_goes_from_the_store_to_the_gradient(budgeted: Kit, played: list[Trajectory]) -> None:
    loop = loop_for(budgeted, replay(played), [])
    before = {name: tensor.clone() for name, tensor in loop.model.state_dict().items()}

    # Store → slot → turns → trajectory → group.
    loop.engine.load(loop.trainer.weights(), version=7)
    groups = loop.rollout.iterate()
    assert [group.id for group in groups] == [f"general/low/{n:06d}" for n in range(PROMPTS)]
    trajectories = [t for group in groups for t in group.trajectories]
    assert [t.task for t in trajectories] == [t.task for t in played]
    for ours, shown in zip(trajectories, played):
        assert [row.ids.tolist() for row in ours.rows] == [row.ids.tolist() for row in shown.rows]
        assert (ours.id, ours.turns, ours.result, ours.spend) == (shown.id, shown.turns, shown.result, shown.spend)
        for row in ours.rows:
            assert row.sampled_mask.any()
            assert (row.versions[row.sampled_mask] == 7).all()
            assert (row.versions[~row.sampled_mask] == -1).all()

    # Group → rewards: −1 wherever the budget is overspent, whatever was earned.
    cohorts = [reward_group(group, multiplier=TAU) for group in groups]
    rewards = [m.reward for cohort in cohorts for m in cohort.members]
    assert rewards == [-1.0 if t.spend > TAU * B0 else t.result.score for t in trajectories]
    assert {-1.0, 0.0, 1.0} <= set(rewards)
    assert any(t.result.status == "pass" and reward == -1.0 for t, reward in zip(trajectories, rewards))

    # Advantages → samples: the ids sampled are the ids trained, and no other.
    samples, still = samples_of(cohorts, loop.trainer.version)
    assert not still, "every row was sampled by another version than the trainer's, so each has its pull"
    rows = [(row, t) for t in trajectories for row in t.rows]
    for sample, (row, trajectory) in zip(samples, rows, strict=True):
        n = trajectories.index(trajectory)
        mean = np.mean(rewards[n // SAMPLES * SAMPLES :][:SAMPLES])
        assert sample.ids.tolist() == row.ids.tolist()
        assert sample.mask.tolist() == row.sampled_mask.tolist()
        assert sample.streams["old_logprob"].tolist() == row.logprobs.tolist()
        np.testing.assert_allclose(sample.streams["advantage"], rewards[n] - mean, atol=1e-6)

    # Samples → batch: packed in another order, each prompt once in a batch, nothing added or lost.
    batches = micro_batches(samples, max_tokens=200, share=200)
    assert len(batches) > 1
    assert all(batch.layout.trunks is not None for batch in batches)
    wholes = [(batch.ids[tokens], whole.cu_seqlens) for batch in batches for tokens, whole in [batch.layout.whole]]
    documents = [ids.tolist() for all_ids, cuts in wholes for ids in np.split(all_ids, cuts[1:-1])]
    assert sorted(documents) == sorted(sample.ids.tolist() for sample in samples)
    sampled = sum(t.new_tokens for t in trajectories)
    assert sum(int(batch.mask.sum()) for batch in batches) == sampled

    # Batch → loss, divided by the tokens of the whole batch → gradient → weights.
    expected, tokens = objective(loop.model, trajectories, rewards)
    gradients = torch.autograd.grad(-expected, [a.parameter for a in loop.trainer.assigned], allow_unused=True)
    norm = torch.sqrt(sum(((g**2).sum() for g in gradients if g is not None), torch.zeros(())))
    metrics = loop.trainer.step(batches, lambda model, batch: policy_loss(model, batch, POLICY))
    assert metrics["tokens"] == tokens == sampled
    assert metrics["policy/objective"] == pytest.approx(float(expected.detach()), rel=1e-4)
    assert metrics["grad_norm"] == pytest.approx(float(norm), rel=1e-3)
    assert metrics["policy/outside_share"] == 0.0
    after = loop.model.state_dict()
    assert sum(not torch.equal(before[name], after[name]) for name in before) > len(before) / 2
    assert loop.trainer.version == 1


def test_the_loop_is_these_hops(budgeted: Kit, played: list[Trajectory]) -> None:
    """`Loop.iterate` ends in the weights that the hops by hand end in, and reports figures of the dispatched groups."""
    by_hand = loop_for(budgeted, replay(played), [])
    by_hand.engine.load(by_hand.trainer.weights(), by_hand.trainer.version)
    cohorts = [reward_group(group, multiplier=TAU) for group in by_hand.rollout.iterate()]
    moving, still = samples_of(cohorts, by_hand.trainer.version)
    batches = micro_batches(moving, budgeted.recipe.rl.micro_tokens, share=budgeted.recipe.rl.micro_tokens)
    counted = sum(int(sample.mask.sum()) for sample in still)
    by_hand.trainer.step(batches, lambda model, batch: policy_loss(model, batch, POLICY), still_tokens=counted)

    log: list[dict[str, Any]] = []
    loop = loop_for(budgeted, replay(played), log)
    loop.iterate()
    ours, theirs = loop.model.state_dict(), by_hand.model.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert loop.trained == [cohort.group.id for cohort in cohorts]
    rewards = [m.reward for cohort in cohorts for m in cohort.members]
    assert log[-1]["dispatched/reward"] == pytest.approx(np.mean(rewards))
    assert log[-1]["dispatched/groups"] == PROMPTS
    assert log[-1]["tau"] == TAU


def test_an_invalid_trajectory_never_trains(budgeted: Kit, played: list[Trajectory]) -> None:
    loop = loop_for(budgeted, replay(played), [])
    loop.engine.load(loop.trainer.weights(), version=0)
    group, *_ = loop.rollout.iterate()
    first, *others = group.trajectories
    broken = replace(first, result=replace(first.result, status="invalid", score=0.0))
    cohort = reward_group(replace(group, trajectories=(broken, *others)), multiplier=TAU)
    assert cohort.invalid == 1
    moving, still = samples_of([cohort], version=0)
    trained = [sample.ids.tolist() for sample in (*moving, *still)]
    assert sorted(trained) == sorted(row.ids.tolist() for t in others for row in t.rows)

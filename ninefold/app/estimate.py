"""What a run will cost on this machine: work from the recipe, speeds measured on a model of its size for some seconds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ninefold.core.protocols import Request
from ninefold.core.types import Batch, Sample
from ninefold.engine.native import NativeConfig, NativeEngine
from ninefold.learn.loss.sft import sft_loss
from ninefold.learn.trainer import Trainer, TrainerConfig
from ninefold.model.k3 import K3
from ninefold.model.presets import preset
from ninefold.recipes.config import Recipe

ROW_TOKENS = 120
"""Of a typical trajectory, prompt and tool results included."""
NEW_TOKENS = 50
"""Of these, sampled."""
MOVING = 0.6
"""Share of RL's trajectories that are trained on; the others have no advantage."""
MTP = 1.3
"""Cost of a token in pre-training, where one more layer and its head are trained along, in units of one in SFT."""
DRAFTED = 0.7
"""The same of a token in the draft's training, for each position that is unrolled."""
WORLD_SECONDS = 0.0018
"""CPU-seconds of a trajectory's world and verifier, or of a demonstration, on the processor of docs/LOG.md."""
ORDER = ("pretrain", "demonstrations", "sft", "budgets", "rl", "pool", "pooled", "mopd", "draft", "evaluate")
"""Of stages that train, play or sample."""
PROBE_STEPS = (8, 32)
"""Rows of the two training steps that are timed."""
PROBE_ROWS = 128
PROBE_NEW = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a stage has to do."""

    trained: float = 0.0
    """Tokens."""
    passes: float = 0.0
    """The same by what they cost, in units of a token in SFT."""
    steps: float = 0.0
    """Optimiser steps, every process's own counted."""
    sampled: float = 0.0
    """Tokens."""
    played: float = 0.0
    """Trajectories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """CPU-seconds of one process, for each token trained or sampled and each optimiser step."""

    trained: float
    step: float
    sampled: float

    def seconds(self, work: Work) -> float:
        """CPU-seconds of the work."""
        learning = work.passes * self.trained + work.steps * self.step
        return learning + work.sampled * self.sampled + work.played * WORLD_SECONDS


def work_of(recipe: Recipe) -> dict[str, Work]:
    """Stage → its work, by typical lengths of the demo's families."""
    cells, pretrain, sft, rl = len(recipe.cells), recipe.pretrain, recipe.sft, recipe.rl
    pool, mopd, draft = recipe.pool, recipe.mopd, recipe.draft

    def of_each(count: int) -> int:
        return sum(recipe.of_each(domain, count) for domain, _ in recipe.cells)

    def trained(tokens: float, steps: float, cost: float = 1.0) -> Work:
        return Work(trained=tokens, passes=tokens * cost, steps=steps * recipe.processes)

    def played(trajectories: float) -> Work:
        return Work(played=trajectories, sampled=trajectories * NEW_TOKENS)

    explored = rl.steps * rl.samples * of_each(rl.prompts)
    moving = MOVING * explored * ROW_TOKENS
    scored = cells * (rl.steps // rl.evaluate_every + 4) * rl.dev_tasks
    shown = sft.demonstrations * ROW_TOKENS
    pooled = of_each(pool.rollouts) * pool.epochs * ROW_TOKENS
    distilled = mopd.steps * mopd.rollouts * (1 + mopd.compare)
    drafted = draft.steps * draft.batch_tokens
    parts = {
        "pretrain": [trained(pretrain.tokens, pretrain.tokens / pretrain.batch_tokens, MTP)],
        "demonstrations": [Work(played=sft.demonstrations)],
        "sft": [trained(shown, shown / tokens) for tokens in sft.batch_tokens],
        "budgets": [played(of_each(recipe.budgets.tasks))],
        # A cell is one process's.
        "rl": [played(explored + scored), Work(trained=moving, passes=moving, steps=cells * rl.steps)],
        "pool": [played(of_each(pool.rollouts))],
        "pooled": [trained(pooled, pooled / pool.batch_tokens)],
        # The teacher's pass over the same rows costs about a third of the student's.
        "mopd": [played(distilled), trained(distilled * ROW_TOKENS, mopd.steps, 4 / 3)],
        "draft": [played(draft.rollouts), trained(drafted, draft.steps, DRAFTED * draft.unroll)],
        "evaluate": [played((5 + mopd.compare) * cells * recipe.evaluate.tasks)],
    }
    return {name: _sum(parts[name]) for name in ORDER}


def _sum(parts: Sequence[Work]) -> Work:
    return Work(**{name: sum(getattr(part, name) for part in parts) for name in Work.__slots__})


def measure_speed(recipe: Recipe) -> Speed:
    """Time training steps of two sizes and a batch of generation on a fresh model of the recipe's preset."""
    model = K3(preset(recipe.preset, vocab_size=recipe.tokenizer.vocab_size), seed=recipe.seed)
    rng = np.random.default_rng(0)
    rows = rng.integers(0, recipe.tokenizer.vocab_size, (PROBE_STEPS[1], ROW_TOKENS), np.int32)
    trainer = Trainer(model, TrainerConfig(steps=2 * len(PROBE_STEPS)))
    seconds: list[float] = []
    for count in PROBE_STEPS:
        batch = Batch.pack([Sample(ids=row, mask=np.ones(len(row), np.bool_)) for row in rows[:count]])
        trainer.step([batch], sft_loss)
        begun = time.process_time()
        trainer.step([batch], sft_loss)
        seconds.append(time.process_time() - begun)
    small, large = seconds
    trained = max(large - small, 0.0) / (ROW_TOKENS * (PROBE_STEPS[1] - PROBE_STEPS[0]))
    engine = NativeEngine(model, stop_ids=(), config=NativeConfig(rows=PROBE_ROWS, capacity=2 * ROW_TOKENS))
    begun = time.process_time()
    engine.submit(
        [Request(id=str(i), session=str(i), ids=rows[i % len(rows)][:70], max_new=PROBE_NEW, seed=i) for i in range(PROBE_ROWS)]
    )
    while engine.in_flight:
        engine.poll()
    sampled = (time.process_time() - begun) / (PROBE_ROWS * PROBE_NEW)
    return Speed(trained=trained, step=max(small - PROBE_STEPS[0] * ROW_TOKENS * trained, 0.0), sampled=sampled)

"""What a run will cost on this machine: tokens from the recipe, speeds measured on a model of its size for some seconds."""

from __future__ import annotations

import time
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
ORDER = ("sft", "budgets", "rl", "pool", "pooled", "mopd", "draft", "evaluate")
"""Of stages that train or sample."""
PROBE_ROWS = 128
PROBE_NEW = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a stage has to do, in tokens."""

    trained: float = 0.0
    sampled: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Of one process, in tokens per CPU-second."""

    trained: float
    sampled: float

    def seconds(self, work: Work) -> float:
        """CPU-seconds of the work."""
        return work.trained / self.trained + work.sampled / self.sampled


def work_of(recipe: Recipe) -> dict[str, Work]:
    """Stage → its work, by typical lengths of the demo's families."""
    cells, rl, mopd = len(recipe.cells), recipe.rl, recipe.mopd
    explored = rl.steps * rl.samples * sum(recipe.prompts(domain) for domain, _ in recipe.cells)
    played = {
        "budgets": cells * recipe.budgets.tasks,
        "rl": explored + cells * (rl.steps // rl.evaluate_every + 4) * rl.dev_tasks,
        "pool": cells * recipe.pool.rollouts,
        "mopd": mopd.steps * mopd.rollouts,
        "draft": recipe.draft.rollouts,
        "evaluate": (5 + mopd.compare) * cells * recipe.evaluate.tasks,
    }
    rows = {
        "sft": recipe.sft.demonstrations * len(recipe.sft.batch_tokens),
        "rl": explored,
        "pooled": cells * recipe.pool.rollouts * recipe.pool.epochs,
        # The teacher's pass over the same rows costs about a third of the student's.
        "mopd": mopd.steps * mopd.rollouts * 4 / 3,
        "draft": recipe.draft.steps * recipe.draft.batch_tokens / ROW_TOKENS,
    }
    names = [name for name in ORDER if name in rows or name in played]
    work = {name: Work(trained=rows.get(name, 0) * ROW_TOKENS, sampled=played.get(name, 0) * NEW_TOKENS) for name in names}
    return {"pretrain": Work(trained=recipe.pretrain.tokens), **work}


def measure_speed(recipe: Recipe) -> Speed:
    """Time a training step and a batch of generation on a fresh model of the recipe's preset."""
    model = K3(preset(recipe.preset, vocab_size=recipe.tokenizer.vocab_size), seed=recipe.seed)
    rng = np.random.default_rng(0)
    rows = rng.integers(0, recipe.tokenizer.vocab_size, (PROBE_ROWS // 4, ROW_TOKENS), np.int32)
    batch = Batch.pack([Sample(ids=row, mask=np.ones(len(row), np.bool_)) for row in rows])
    trainer = Trainer(model, TrainerConfig(steps=3))
    trainer.step([batch], sft_loss)
    begun = time.process_time()
    trainer.step([batch], sft_loss)
    trained = batch.layout.tokens / (time.process_time() - begun)
    engine = NativeEngine(model, stop_ids=(), config=NativeConfig(rows=PROBE_ROWS, capacity=2 * ROW_TOKENS))
    begun = time.process_time()
    engine.submit(
        [Request(id=str(i), session=str(i), ids=rows[i % len(rows)][:70], max_new=PROBE_NEW, seed=i) for i in range(PROBE_ROWS)]
    )
    while engine.in_flight:
        engine.poll()
    return Speed(trained=trained, sampled=PROBE_ROWS * PROBE_NEW / (time.process_time() - begun))

"""The loop that all gradient stages share: resume, step, report, save."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from ninefold.core.events import Emit
from ninefold.core.store import COMPLETE, SCHEMA_VERSION, is_complete, recover_folder, write_folder, write_json
from ninefold.core.types import Batch
from ninefold.learn.optim.adamw import AdamWConfig
from ninefold.learn.optim.muon import MuonConfig
from ninefold.learn.optim.schedule import ScheduleConfig
from ninefold.learn.trainer import Trainer, TrainerConfig
from ninefold.recipes.config import StepSizes

STATE = "state"
"""Folder within a stage's own that holds what an interrupted stage goes on from."""


def trainer_config(sizes: StepSizes, steps: int, schedule: ScheduleConfig, *, decay: float = 0.0) -> TrainerConfig:
    """Both optimisers at a stage's step sizes."""
    return TrainerConfig(
        steps=steps,
        muon=MuonConfig(lr=sizes.muon, weight_decay=decay),
        adamw=AdamWConfig(lr=sizes.adamw, weight_decay=decay),
        schedule=schedule,
    )


def resume(trainer: Trainer[Any], stage: Path) -> None:
    """Go on from the stage's last saved state, if there is one."""
    recover_folder(stage / STATE)
    if is_complete(stage / STATE):
        trainer.load(stage / STATE)


def train(
    trainer: Trainer[Any],
    stage: Path,
    batches: Callable[[int], Sequence[Batch]],
    loss: Callable[[Any, Batch], Any],
    emit: Emit,
    *,
    save_every: int,
    after: Callable[[int], None] | None = None,
) -> None:
    """Steps until the schedule's end. `batches` gives this rank's share of a step; `after` is called behind each one."""
    resume(trainer, stage)
    steps, begun = trainer.config.steps, time.monotonic()
    first = trainer.steps_done
    while trainer.steps_done < steps:
        metrics = trainer.step(batches(trainer.steps_done), loss)
        done = trainer.steps_done
        if after is not None:
            after(done)
        if trainer.world.rank == 0:
            rate = (done - first) / (time.monotonic() - begun)
            emit("step", **metrics, total=steps, tokens_per_second=metrics["tokens"] * rate, eta=(steps - done) / rate)
            if done % save_every == 0 and done < steps:
                write_folder(stage / STATE, trainer.save)


def finish(stage: Path, results: dict[str, Any] | None = None) -> None:
    """Mark a stage complete, results beside it, and drop what it would have gone on from."""
    write_json(stage / "results.json", results or {})
    write_json(stage / COMPLETE, {"schema": SCHEMA_VERSION})
    shutil.rmtree(stage / STATE, ignore_errors=True)


def frozen(model: nn.Module) -> nn.Module:
    """The model as a teacher: no gradients, never updated."""
    return model.requires_grad_(False).eval()

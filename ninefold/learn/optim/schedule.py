"""Learning rate over a run, as a factor of its peak."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

from ninefold.core.config import Config


class ScheduleConfig(Config):
    """Linear warm-up, then one of three shapes."""

    kind: Literal["cosine", "wsd", "constant"] = "cosine"
    """cosine: one half wave down to the floor; wsd: stay at the peak, then a straight line down; constant: stay."""
    warmup: float = Field(default=0.01, ge=0, le=1)
    """Share of the steps that the warm-up takes, rounded up (report: 1 %)."""
    decay: float = Field(default=0.1, ge=0, le=1)
    """wsd only: share of the steps that the final decay takes, rounded up."""
    floor: float = Field(default=0.1, ge=0, le=1)
    """Factor that the decay ends at."""


def learning_rate_factor(config: ScheduleConfig, step: int, steps: int) -> float:
    """Factor of the peak learning rate at 0-based `step` of `steps`; it stays at its end value beyond them."""
    warmup = math.ceil(config.warmup * steps)
    if step < warmup:
        return (step + 1) / warmup
    if config.kind == "constant":
        return 1.0
    start = warmup if config.kind == "cosine" else max(warmup, steps - math.ceil(config.decay * steps))
    progress = min(1.0, max(0.0, (step + 1 - start) / max(1, steps - start)))
    shape = (1 + math.cos(math.pi * progress)) / 2 if config.kind == "cosine" else 1 - progress
    return config.floor + (1 - config.floor) * shape

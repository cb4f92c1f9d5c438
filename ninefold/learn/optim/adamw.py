"""AdamW for what is no matrix, or no matrix product: embeddings, head, router, norms, biases, convolutions, scalars."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from pydantic import Field

from ninefold.core.config import Config
from ninefold.learn.optim.assign import Assigned


class AdamWConfig(Config):
    """AdamW's constants."""

    lr: float = Field(default=3e-3, gt=0)
    """Peak learning rate."""
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = Field(default=1e-8, gt=0)
    weight_decay: float = Field(default=0.1, ge=0)
    """Decoupled; only for parameters whose rule decays."""


def adamw(parameters: Iterable[Assigned], config: AdamWConfig) -> torch.optim.AdamW:
    """PyTorch's AdamW over two groups: with and without weight decay."""
    members = list(parameters)
    groups = [
        {"params": [m.parameter for m in members if m.rule.decay == decay], "weight_decay": config.weight_decay * decay}
        for decay in (True, False)
    ]
    present = [group for group in groups if group["params"]]
    return torch.optim.AdamW(present, lr=config.lr, betas=config.betas, eps=config.eps, fused=True)

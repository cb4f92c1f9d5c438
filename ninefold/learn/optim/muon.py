"""Per-Head Muon: momentum orthogonalised head by head, expert by expert, with the step size of AdamW."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from ninefold.core.config import Config
from ninefold.learn.optim.assign import Assigned
from ninefold.model.ops.newton_schulz import newton_schulz


class MuonConfig(Config):
    """Muon's constants."""

    lr: float = Field(default=0.01, gt=0)
    """Peak learning rate."""
    momentum: float = Field(default=0.95, ge=0, lt=1)
    weight_decay: float = Field(default=0.1, ge=0)
    """Decoupled: weights shrink by lr · weight_decay each step."""
    rms: float = Field(default=0.2, gt=0)
    """Root mean square of an update before the learning rate: that of AdamW (Moonlight)."""


class Muon(torch.optim.Optimizer):
    """Muon with Nesterov momentum over matrices [R, C] and stacks of them [E, R, C].

    Each matrix's update is the orthogonalised momentum times rms · √max(rows, cols), rows and cols those of the block that was
    orthogonalised: a head's part of Q, K or V, one expert, or the whole (report, Per-Head Muon; Moonlight, update RMS).
    Blocks of one shape go through Newton–Schulz together.
    """

    def __init__(self, matrices: Iterable[Assigned], config: MuonConfig) -> None:
        groups: dict[Any, list[Tensor]] = defaultdict(list)
        for matrix in matrices:
            assert matrix.parameter.ndim in (2, 3), f"{matrix.name} is no matrix: {tuple(matrix.parameter.shape)}"
            groups[(matrix.rule.heads, matrix.rule.within, matrix.rule.decay)].append(matrix.parameter)
        super().__init__(
            [
                {"params": members, "heads": heads, "within": within, "weight_decay": config.weight_decay if decay else 0.0}
                for (heads, within, decay), members in groups.items()
            ],
            {"lr": config.lr, "momentum": config.momentum, "rms": config.rms},
        )

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Update every parameter that has a gradient; the others keep their weights and momentum."""
        moves: list[tuple[dict[str, Any], Tensor, Tensor]] = []
        shapes: dict[tuple[int, int], list[Tensor]] = defaultdict(list)
        for group in self.param_groups:
            for member in (p for p in group["params"] if p.grad is not None):
                update = self._ahead(member, group["momentum"])
                moves.append((group, member, update))
                for block_BRC in blocks(update, group["heads"], group["within"]):
                    shapes[(block_BRC.shape[1], block_BRC.shape[2])].append(block_BRC)
        for (rows, cols), members_BRC in shapes.items():
            _orthogonalise(members_BRC, max(rows, cols) ** 0.5)
        for group, member, update in moves:
            member.mul_(1 - group["lr"] * group["weight_decay"]).sub_(update, alpha=group["lr"] * group["rms"])

    def _ahead(self, member: Tensor, momentum: float) -> Tensor:
        """Nesterov's look-ahead: the gradient plus the next share of the updated momentum, as a fresh contiguous tensor."""
        assert member.grad is not None
        state = self.state[member]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(member, memory_format=torch.contiguous_format)
        return state["momentum"].mul_(momentum).add_(member.grad).mul(momentum).add_(member.grad)


def blocks(matrix: Tensor, heads: int, within: tuple[int, ...]) -> list[Tensor]:
    """Views [B, rows, cols] of a matrix or a stack, that together cover it: one for each part of a head."""
    cols = matrix.shape[-1]
    assert matrix.shape[-2] % heads == 0, f"{matrix.shape[-2]} rows are not {heads} heads"
    head_BRC = matrix.view(-1, matrix.shape[-2] // heads, cols)
    if not within:
        return [head_BRC]
    assert sum(within) == head_BRC.shape[1], f"{within} do not make a head of {head_BRC.shape[1]} rows"
    return list(head_BRC.split(within, dim=1))


def _orthogonalise(members_BRC: list[Tensor], scale: float) -> None:
    """Replace every matrix of equally shaped stacks by its orthogonal factor times `scale`."""
    together = newton_schulz(torch.cat(members_BRC)).mul_(scale)
    for member, done in zip(members_BRC, together.split([len(m) for m in members_BRC]), strict=True):
        member.copy_(done)

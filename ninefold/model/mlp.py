"""Gated MLP with the SiTU activation, or SwiGLU at infinite bounds (spec 01): the dense layers and the shared experts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ninefold.model.ops.product import product
from ninefold.model.ops.situ import situ_glu


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedMLP:
    """The layer as it computes."""

    gate_up: Tensor
    """[2·inner, hidden] gate rows over up rows."""
    down: Tensor
    """[hidden, inner]"""
    beta_gate: float
    beta_up: float

    def __call__(self, x_ND: Tensor) -> Tensor:
        """[N, D] → [N, D]"""
        gate, up = product(x_ND, self.gate_up).chunk(2, -1)
        return product(situ_glu(gate, up, self.beta_gate, self.beta_up), self.down)


class MLP(nn.Module):
    """The parameters under their public names."""

    def __init__(self, width: int, inner: int, beta_gate: float, beta_up: float) -> None:
        super().__init__()
        self.beta_gate, self.beta_up = beta_gate, beta_up
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def fused(self) -> FusedMLP:
        """The layer ready to compute; gradients flow back to the parameters."""
        return FusedMLP(
            gate_up=torch.cat([self.gate_proj.weight, self.up_proj.weight]),
            down=self.down_proj.weight,
            beta_gate=self.beta_gate,
            beta_up=self.beta_up,
        )

    def forward(self, x_ND: Tensor) -> Tensor:
        """[N, D] → [N, D]"""
        return self.fused()(x_ND)

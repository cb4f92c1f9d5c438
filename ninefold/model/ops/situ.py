"""SiTU-GLU (report, Stable LatentMoE): a gated unit with smooth bounds on both sides, |out| ≤ β₁ β₂."""

from __future__ import annotations

import torch
from torch import Tensor


def situ_glu(gate: Tensor, up: Tensor, beta_gate: float = 4.0, beta_up: float = 25.0) -> Tensor:
    """β₁ tanh(g/β₁) σ(g) · β₂ tanh(u/β₂), elementwise; near 0 it is SwiGLU to first order."""
    return (beta_gate * torch.tanh(gate / beta_gate) * torch.sigmoid(gate)) * (beta_up * torch.tanh(up / beta_up))


def weighted_situ_glu(
    gate_TEF: Tensor, up_TEF: Tensor, weight_TE: Tensor, beta_gate: float = 4.0, beta_up: float = 25.0
) -> Tensor:
    """`situ_glu` of every expert's hidden units times the token's weight for that expert, [T, E, F].

    Weight 0 means not routed: the output is 0 and no gradient flows, not even to the weight.
    """
    routed_TE = weight_TE != 0
    hidden_TEF = situ_glu(gate_TEF, up_TEF, beta_gate, beta_up) * weight_TE[..., None]
    return torch.where(routed_TE[..., None], hidden_TEF, torch.zeros_like(hidden_TEF))

"""SiTU-GLU (report, Stable LatentMoE): a gated unit with smooth bounds on both sides, |out| ≤ β₁ β₂.

With infinite bounds it is SwiGLU, exactly; the kernels know finite ones only.
"""

from __future__ import annotations

from math import isinf
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from ninefold.model.ops import native


def situ_glu(gate: Tensor, up: Tensor, beta_gate: float = 4.0, beta_up: float = 25.0) -> Tensor:
    """β₁ tanh(g/β₁) σ(g) · β₂ tanh(u/β₂), elementwise; near 0 it is SwiGLU to first order."""
    assert gate.shape == up.shape
    if not isinf(beta_gate) and native.usable(gate, up):
        return _SituNative.apply(gate, up, None, beta_gate, beta_up)
    return situ_glu_torch(gate, up, beta_gate, beta_up)


def weighted_situ_glu(
    gate_TEF: Tensor, up_TEF: Tensor, weight_TE: Tensor, beta_gate: float = 4.0, beta_up: float = 25.0
) -> Tensor:
    """`situ_glu` of every expert's hidden units times the token's weight for that expert, [T, E, F].

    Weight 0 means not routed: the work is skipped, the output is 0 and no gradient flows, not even to the weight.
    """
    assert gate_TEF.shape == up_TEF.shape
    assert weight_TE.shape == gate_TEF.shape[:-1]
    if not isinf(beta_gate) and native.usable(gate_TEF, up_TEF, weight_TE):
        return _SituNative.apply(gate_TEF, up_TEF, weight_TE, beta_gate, beta_up)
    return weighted_situ_glu_torch(gate_TEF, up_TEF, weight_TE, beta_gate, beta_up)


def situ_glu_torch(gate: Tensor, up: Tensor, beta_gate: float = 4.0, beta_up: float = 25.0) -> Tensor:
    """`situ_glu` in PyTorch, on any device."""
    assert isinf(beta_gate) == isinf(beta_up), "both sides have a bound, or neither has"
    if isinf(beta_gate):
        return F.silu(gate) * up
    return (beta_gate * torch.tanh(gate / beta_gate) * torch.sigmoid(gate)) * (beta_up * torch.tanh(up / beta_up))


def weighted_situ_glu_torch(
    gate_TEF: Tensor, up_TEF: Tensor, weight_TE: Tensor, beta_gate: float = 4.0, beta_up: float = 25.0
) -> Tensor:
    """`weighted_situ_glu` in PyTorch, on any device."""
    hidden_TEF = situ_glu_torch(gate_TEF, up_TEF, beta_gate, beta_up) * weight_TE[..., None]
    return torch.where(weight_TE[..., None] != 0, hidden_TEF, torch.zeros_like(hidden_TEF))


class _SituNative(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor, weight: Tensor | None, beta_gate: float, beta_up: float) -> Tensor:
        gate, up = gate.contiguous(), up.contiguous()
        weight = None if weight is None else weight.contiguous()
        hidden = torch.empty_like(gate)
        # Without weights all of it is one row.
        ctx.row = gate.numel() if weight is None else gate.shape[-1]
        ctx.betas = (float(beta_gate), float(beta_up))
        ctx.save_for_backward(gate, up, weight)
        if gate.numel():
            native.call("situ_forward", gate, up, weight, hidden, gate.numel() // ctx.row, ctx.row, *ctx.betas)
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        gate, up, weight = ctx.saved_tensors
        d_gate, d_up = torch.empty_like(gate), torch.empty_like(up)
        d_weight = None if weight is None else torch.empty_like(weight)
        if gate.numel():
            rows = gate.numel() // ctx.row
            d_hidden = grads[0].contiguous()
            native.call("situ_backward", d_hidden, gate, up, weight, d_gate, d_up, d_weight, rows, ctx.row, *ctx.betas)
        return d_gate, d_up, d_weight, None, None

"""Kimi Delta Attention (report Eq. 1–6): a delta rule whose state decays per key channel, over packed documents."""

from __future__ import annotations

import torch
from torch import Tensor

from ninefold.core.layout import DocLayout
from ninefold.model.ops.kda_chunk import kda_chunk

A_LOG_MAX = 20.0
"""Beyond e^20 the gate is a step function; e^A itself must stay finite, or its gradient is 0·∞."""


def l2norm(x: Tensor, eps: float = 1e-6) -> Tensor:
    """x · rsqrt(Σ x² + eps) over the last dimension; a zero vector stays zero."""
    return x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + eps)


def kda_gate(z_THK: Tensor, A_log_H: Tensor, g_min: float = -5.0) -> Tensor:
    """Log decay g = g_min · σ(e^A z), in (g_min, 0); z holds its bias already."""
    return g_min * torch.sigmoid(A_log_H.clamp(max=A_LOG_MAX).exp()[:, None] * z_THK)


def kda(
    q_THK: Tensor,
    k_THK: Tensor,
    v_THV: Tensor,
    g_THK: Tensor,
    beta_TH: Tensor,
    layout: DocLayout,
    initial_DHKV: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """S ← (I − β k kᵀ) Diag(eᵍ) S + β k vᵀ, o = Sᵀ q, per head, from each document's initial state (zero if none).

    q is scaled and q, k are normalised by the caller; g is the log decay in [−5, 0]. Returns o_THV and final_DHKV.
    """
    return kda_chunk(q_THK, k_THK, v_THV, g_THK, beta_TH, layout, initial_DHKV)


@torch.no_grad()
def kda_step(q_BHK: Tensor, k_BHK: Tensor, v_BHV: Tensor, g_BHK: Tensor, beta_BH: Tensor, state_BHKV: Tensor) -> Tensor:
    """One token for each of B sequences: moves `state_BHKV` on in place and returns o_BHV."""
    state_BHKV.mul_(g_BHK.exp()[..., None])
    read_BHV = (k_BHK[..., None, :] @ state_BHKV).squeeze(-2)
    write_BHV = beta_BH[..., None] * (v_BHV - read_BHV)
    state_BHKV.add_(k_BHK[..., None] * write_BHV[..., None, :])
    return (q_BHK[..., None, :] @ state_BHKV).squeeze(-2)

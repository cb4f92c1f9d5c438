"""Kimi Delta Attention (report Eq. 1–6): a delta rule whose state decays per key channel, over packed documents."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ninefold.core.errors import UserError
from ninefold.core.layout import DocLayout
from ninefold.model.ops import fla, native
from ninefold.model.ops.kda_chunk import LOWEST_DECAY, TILE, kda_chunk

A_LOG_MAX = 20.0
"""Beyond e^20 the gate is a step function; e^A itself must stay finite, or its gradient is 0·∞."""


def l2norm(x: Tensor, eps: float = 1e-6) -> Tensor:
    """x · rsqrt(Σ x² + eps) over the last dimension; a zero vector stays zero."""
    return x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + eps)


def kda_gate(z_THK: Tensor, A_log_H: Tensor, g_min: float = -5.0) -> Tensor:
    """Log decay g = g_min · σ(e^A z), in (g_min, 0); z holds its bias already. UserError where g_min < −5."""
    if g_min < LOWEST_DECAY:
        raise UserError(f"g_min must be at least {LOWEST_DECAY}, got {g_min}: a stronger decay overflows the chunk form")
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
    inputs = (q_THK, k_THK, v_THV, g_THK, beta_TH)
    _check_shapes(*inputs)
    assert layout.tokens == len(q_THK)
    if fla.usable(*inputs):
        return fla.chunked(*inputs, layout, initial_DHKV)
    if not native.usable(*inputs):
        return kda_chunk(*inputs, layout, initial_DHKV)
    state_shape = (layout.documents, *q_THK.shape[1:], v_THV.shape[-1])
    if initial_DHKV is None:
        initial_DHKV = q_THK.new_zeros(state_shape)
    assert initial_DHKV.shape == state_shape
    return _KdaNative.apply(*inputs, initial_DHKV.float(), layout)


@torch.no_grad()
def kda_step(q_BHK: Tensor, k_BHK: Tensor, v_BHV: Tensor, g_BHK: Tensor, beta_BH: Tensor, state_BHKV: Tensor) -> Tensor:
    """One token for each of B sequences: moves `state_BHKV` on in place and returns o_BHV."""
    inputs = (q_BHK, k_BHK, v_BHV, g_BHK, beta_BH)
    _check_shapes(*inputs)
    assert state_BHKV.shape == (*q_BHK.shape, v_BHV.shape[-1])
    if fla.usable(*inputs, state_BHKV):
        return fla.stepped(*inputs, state_BHKV)
    if not (native.usable(*inputs, state_BHKV) and state_BHKV.is_contiguous()):
        return kda_step_torch(*inputs, state_BHKV)
    o_BHV = torch.empty_like(v_BHV, memory_format=torch.contiguous_format)
    K, V = state_BHKV.shape[-2:]
    native.call("kda_step", *(x.contiguous() for x in inputs), state_BHKV, o_BHV, beta_BH.numel(), K, V)
    return o_BHV


@torch.no_grad()
def kda_step_torch(q_BHK: Tensor, k_BHK: Tensor, v_BHV: Tensor, g_BHK: Tensor, beta_BH: Tensor, state_BHKV: Tensor) -> Tensor:
    """`kda_step` in PyTorch, on any device."""
    state_BHKV.mul_(g_BHK.exp()[..., None])
    read_BHV = (k_BHK[..., None, :] @ state_BHKV).squeeze(-2)
    write_BHV = beta_BH[..., None] * (v_BHV - read_BHV)
    state_BHKV.add_(k_BHK[..., None] * write_BHV[..., None, :])
    return (q_BHK[..., None, :] @ state_BHKV).squeeze(-2)


def _check_shapes(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> None:
    """The kernels read raw memory: a mismatch must stop here."""
    assert q.shape == k.shape == g.shape, f"q {q.shape}, k {k.shape}, g {g.shape} must be alike"
    assert v.shape[:2] == beta.shape == q.shape[:2], f"v {v.shape} and beta {beta.shape} must go with q {q.shape}"


class _KdaNative(torch.autograd.Function):
    """The C recurrence; states are saved every TILE tokens and the tokens between replayed in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, initial_DHKV: Tensor, layout: DocLayout
    ) -> tuple[Tensor, Tensor]:
        inputs = tuple(x.contiguous() for x in (q, k, v, g, beta))
        D, H, K, V = initial_DHKV.shape
        starts = torch.from_numpy(layout.cu_seqlens)
        o_THV = torch.empty_like(inputs[2])
        final_DHKV = initial_DHKV.clone(memory_format=torch.contiguous_format)
        saved = None
        if any(ctx.needs_input_grad):
            saved = q.new_empty(int((-(-layout.lengths // TILE)).sum()), H, K, V)
        native.call("kda_forward", *inputs, starts, o_THV, final_DHKV, saved, None, None, D, H, K, V)
        ctx.save_for_backward(*inputs, starts, saved)
        return o_THV, final_DHKV

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        *inputs, starts, saved = ctx.saved_tensors
        d_o_THV, d_final_DHKV = grads
        d_state_DHKV = d_final_DHKV.clone(memory_format=torch.contiguous_format)
        shape = d_state_DHKV.shape
        K, V = shape[-2:]
        d_inputs = [torch.empty_like(x) for x in inputs]
        scratch = d_state_DHKV.new_empty(TILE * (K * V + K + 2 * V) + 2 * K * V)
        native.call("kda_backward", *inputs, starts, saved, d_o_THV.contiguous(), d_state_DHKV, *d_inputs, scratch, *shape)
        return *d_inputs, d_state_DHKV, None

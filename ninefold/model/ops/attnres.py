"""Block Attention Residuals (report Eq. 8–10): each site mixes the finished blocks and the running partial sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ninefold.model.ops import native
from ninefold.model.ops.norm import rms_norm, rms_norm_torch


@dataclass(frozen=True, kw_only=True)
class Source:
    """A residual source, with its inverse RMS kept for every later site that needs it again."""

    value_TD: Tensor
    eps: float

    @staticmethod
    def of(value_TD: Tensor, eps: float) -> Source:
        return Source(value_TD=value_TD, eps=eps)

    @cached_property
    def inverse_rms_T1(self) -> Tensor:
        return torch.rsqrt(_wide(self.value_TD).pow(2).mean(-1, keepdim=True) + self.eps)


def read(sources: Sequence[Source], key_D: Tensor, own_norm_D: Tensor) -> Tensor:
    """What a sub-layer computes from: `mix`, then the sub-layer's own RMSNorm with weight `own_norm_D`. [T, D]

    For backward only the sources are kept, which belong to the stream anyway; the mixture is made again. So a layer stores
    what one of a plain residual stack does.
    """
    eps, values = sources[0].eps, [s.value_TD for s in sources]
    if len(values) == 1:
        return rms_norm(values[0], own_norm_D, eps)
    assert all(v.shape == (len(values[0]), len(key_D)) for v in values)
    if native.usable(key_D, own_norm_D, *values):
        return _ReadNative.apply(eps, key_D, own_norm_D, *values)
    return _Read.apply(eps, key_D, own_norm_D, *values) if torch.is_grad_enabled() else _read(sources, key_D, own_norm_D)


def read_into(y_TD: Tensor, sources: Tensor, count: int, key_D: Tensor, own_norm_D: Tensor, eps: float) -> None:
    """`read` by the kernel, of the first `count` of `native.pointers` to contiguous sources of y's shape."""
    native.call("read_forward", sources, key_D, own_norm_D, y_TD, len(y_TD), count, len(key_D), float(eps))


def _read(sources: Sequence[Source], key_D: Tensor, own_norm_D: Tensor) -> Tensor:
    return rms_norm_torch(mix(sources, key_D), own_norm_D, sources[0].eps)


def mix(sources: Sequence[Source], key_D: Tensor) -> Tensor:
    """h = Σ_i p_i v_i with p = softmax_i(key · v_i / rms(v_i)); key is query times norm weight."""
    logits = [(_wide(s.value_TD) @ _wide(key_D)[:, None]) * s.inverse_rms_T1 for s in sources]
    p_TN = torch.softmax(torch.cat(logits, -1), -1)
    h_TD = p_TN[:, :1] * sources[0].value_TD
    for n, s in enumerate(sources[1:], start=1):
        h_TD = torch.addcmul(h_TD, p_TN[:, n : n + 1], _wide(s.value_TD))
    return h_TD.to(sources[0].value_TD.dtype)


def attention_residual(sources: Sequence[Tensor], query_D: Tensor, norm_weight_D: Tensor, eps: float = 1e-5) -> Tensor:
    """h = Σ_i p_i v_i with p = softmax_i(query · RMSNorm(v_i)); values un-normalised, in float32 or wider inside.

    `sources` are [T, D] each: the embedding, the finished blocks, and within a block the partial sum.
    """
    return mix([Source.of(v_TD, eps) for v_TD in sources], query_D * norm_weight_D)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedBlocks:
    """Phase one of the two-phase form: the finished blocks' part of every site of the coming block, computed at once."""

    peak_TS: Tensor
    """Largest logit per token and site."""
    mass_TS: Tensor
    """Σ exp(logit − peak)."""
    mixed_TSD: Tensor
    """Σ exp(logit − peak) v."""
    key_SD: Tensor
    """Pseudo-query times norm weight of each site."""
    eps: float

    @staticmethod
    def of(sources: Sequence[Tensor], query_SD: Tensor, norm_weight_SD: Tensor, eps: float = 1e-5) -> FinishedBlocks:
        """Score the finished `sources` [T, D] against the S sites of a block."""
        v_TND = _wide(torch.stack(list(sources), 1))
        key_SD = _wide(query_SD * norm_weight_SD)
        inverse_rms_TN1 = torch.rsqrt(v_TND.pow(2).mean(-1, keepdim=True) + eps)
        logits_TNS = (v_TND @ key_SD.T) * inverse_rms_TN1
        peak_TS = logits_TNS.amax(1)
        share_TNS = (logits_TNS - peak_TS[:, None]).exp()
        return FinishedBlocks(peak_TS=peak_TS, mass_TS=share_TNS.sum(1), mixed_TSD=share_TNS.mT @ v_TND, key_SD=key_SD, eps=eps)

    def site(self, s: int, partial_TD: Tensor | None) -> Tensor:
        """Phase two: site s's input, the partial sum (None at the block's start) merged by an online softmax."""
        peak_T1, mass_T1, mixed_TD = self.peak_TS[:, s, None], self.mass_TS[:, s, None], self.mixed_TSD[:, s]
        if partial_TD is None:
            return mixed_TD / mass_T1
        partial = Source.of(partial_TD, self.eps)
        logit_T1 = (_wide(partial_TD) @ self.key_SD[s, :, None]) * partial.inverse_rms_T1
        top_T1 = torch.maximum(peak_T1, logit_T1)
        old_T1, new_T1 = (peak_T1 - top_T1).exp(), (logit_T1 - top_T1).exp()
        h_TD = (old_T1 * mixed_TD + new_T1 * _wide(partial_TD)) / (old_T1 * mass_T1 + new_T1)
        return h_TD.to(partial_TD.dtype)


class _Read(torch.autograd.Function):
    """In PyTorch, on any device."""

    @staticmethod
    def forward(ctx: Any, eps: float, key_D: Tensor, own_norm_D: Tensor, *values: Tensor) -> Tensor:
        ctx.eps = eps
        ctx.save_for_backward(key_D, own_norm_D, *values)
        return _read([Source.of(v_TD, eps) for v_TD in values], key_D, own_norm_D)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        key_D, own_norm_D, *values = inputs = [x.detach().requires_grad_() for x in ctx.saved_tensors]
        with torch.enable_grad():
            y_TD = _read([Source.of(v_TD, ctx.eps) for v_TD in values], key_D, own_norm_D)
        return None, *torch.autograd.grad(y_TD, inputs, grads[0])


class _ReadNative(torch.autograd.Function):
    """One pass over the sources of each token, forward and backward."""

    @staticmethod
    def forward(ctx: Any, eps: float, key_D: Tensor, own_norm_D: Tensor, *values: Tensor) -> Tensor:
        values = tuple(v.contiguous() for v in values)
        ctx.eps = eps
        ctx.save_for_backward(key_D, own_norm_D, *values)
        y_TD = torch.empty_like(values[0])
        read_into(y_TD, native.pointers(values), len(values), key_D, own_norm_D, eps)
        return y_TD

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        key_D, own_norm_D, *values = ctx.saved_tensors
        d_values = [torch.empty_like(v) for v in values]
        d_key_D, d_norm_D = torch.zeros_like(key_D), torch.zeros_like(own_norm_D)
        given = (native.pointers(values), key_D, own_norm_D, grads[0].contiguous())
        shape = (len(values[0]), len(values), len(key_D))
        native.call("read_backward", *given, native.pointers(d_values), d_key_D, d_norm_D, *shape, float(ctx.eps))
        return None, d_key_D, d_norm_D, *d_values


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))

"""RMSNorm with a learned scale."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ninefold.model.ops import native


def rms_norm(x: Tensor, weight_C: Tensor, eps: float) -> Tensor:
    """x · rsqrt(mean x² + eps) · weight over the last axis, in x's dtype."""
    if not native.usable(x, weight_C):
        return rms_norm_torch(x, weight_C, eps)
    assert x.shape[-1:] == weight_C.shape
    return _NormNative.apply(x, weight_C, eps) if torch.is_grad_enabled() else _forward(x.contiguous(), weight_C, eps)


def rms_norm_torch(x: Tensor, weight_C: Tensor, eps: float) -> Tensor:
    """`rms_norm` in PyTorch, on any device."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight_C


def _forward(x: Tensor, weight_C: Tensor, eps: float) -> Tensor:
    y, C = torch.empty_like(x), len(weight_C)
    native.call("rms_norm_forward", x, weight_C.contiguous(), y, x.numel() // C, C, eps)
    return y


class _NormNative(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight_C: Tensor, eps: float) -> Tensor:
        x, ctx.eps = x.contiguous(), eps
        ctx.save_for_backward(x, weight_C)
        return _forward(x, weight_C, eps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight_C = ctx.saved_tensors
        d_x, d_weight_C, C = torch.empty_like(x), torch.zeros_like(weight_C), len(weight_C)
        d_y = grads[0].contiguous()
        native.call("rms_norm_backward", x, weight_C.contiguous(), d_y, d_x, d_weight_C, x.numel() // C, C, ctx.eps)
        return d_x, d_weight_C, None

"""RMSNorm with a learned scale."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def rms_norm(x: Tensor, weight_C: Tensor, eps: float) -> Tensor:
    """x · rsqrt(mean x² + eps) · weight over the last axis, in x's dtype."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight_C


class RMSNorm(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, self.eps)

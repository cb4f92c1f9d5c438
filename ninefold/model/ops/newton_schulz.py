"""Newton–Schulz orthogonalisation, the heart of Muon."""

from __future__ import annotations

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Quintic of Muon: singular values end in about [0.7, 1.2] after five steps."""


def newton_schulz(g_BMN: Tensor, *, steps: int = 5, eps: float = 1e-7, dtype: torch.dtype = torch.float32) -> Tensor:
    """Approximate polar factor of each matrix of a batch [..., M, N], computed in `dtype`, returned in the input's.

    Each matrix is scaled by its own Frobenius norm + eps, so zero stays zero. Tall matrices are transposed inside.
    """
    a, b, c = COEFFICIENTS
    tall = g_BMN.shape[-2] > g_BMN.shape[-1]
    x = (g_BMN.mT if tall else g_BMN).to(dtype)
    x = (x / (x.norm(dim=(-2, -1), keepdim=True) + eps)).reshape(-1, *x.shape[-2:])
    for _ in range(steps):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).reshape(g_BMN.shape).to(g_BMN.dtype)

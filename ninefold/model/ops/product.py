"""The matrix product of the layers."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

ROWS = 4
"""Below so many rows BLAS sums in another order."""


def product(x_NI: Tensor, weight_OI: Tensor) -> Tensor:
    """[N, O] x Wᵀ, where a row's result does not depend on how few rows come with it.

    A quantised model rounds its experts' inputs: a token must round alike in a batch, alone, and in the trainer.
    """
    if len(x_NI) >= ROWS:
        return F.linear(x_NI, weight_OI)
    return F.linear(F.pad(x_NI, (0, 0, 0, ROWS - len(x_NI))), weight_OI)[: len(x_NI)]

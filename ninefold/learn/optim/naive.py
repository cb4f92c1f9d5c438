"""Float64 twins of the optimisers, block by block as the equations stand."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def naive_orthogonal(matrix_RC: Array, steps: int = 5, eps: float = 1e-7) -> Array:
    """Newton–Schulz: X ← aX + (bA + cA²)X with A = XXᵀ, from X = M / (‖M‖ + eps); tall matrices transposed."""
    if matrix_RC.shape[0] > matrix_RC.shape[1]:
        return naive_orthogonal(matrix_RC.T, steps, eps).T
    x = matrix_RC / (np.linalg.norm(matrix_RC) + eps)
    for _ in range(steps):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x


def naive_muon(
    weight_RC: Array,
    momentum_RC: Array,
    gradient_RC: Array,
    *,
    rows: tuple[int, ...],
    lr: float,
    momentum: float = 0.95,
    weight_decay: float = 0.1,
    rms: float = 0.2,
) -> tuple[Array, Array]:
    """(weight, momentum) after one step; `rows` are the heights of the blocks from the top, which cover the matrix."""
    assert sum(rows) == len(weight_RC)
    momentum_RC = momentum * momentum_RC + gradient_RC
    ahead_RC = gradient_RC + momentum * momentum_RC
    weight_RC = weight_RC * (1 - lr * weight_decay)
    top = 0
    for height in rows:
        block = ahead_RC[top : top + height]
        weight_RC[top : top + height] -= lr * rms * max(block.shape) ** 0.5 * naive_orthogonal(block)
        top += height
    return weight_RC, momentum_RC


def naive_adamw(
    weight: Array,
    first: Array,
    second: Array,
    gradient: Array,
    *,
    step: int,
    lr: float,
    betas: tuple[float, float] = (0.9, 0.95),
    eps: float = 1e-8,
    weight_decay: float = 0.1,
) -> tuple[Array, Array, Array]:
    """(weight, first moment, second moment) after 1-based `step`."""
    first = betas[0] * first + (1 - betas[0]) * gradient
    second = betas[1] * second + (1 - betas[1]) * gradient**2
    corrected = first / (1 - betas[0] ** step)
    spread = np.sqrt(second / (1 - betas[1] ** step)) + eps
    return weight * (1 - lr * weight_decay) - lr * corrected / spread, first, second

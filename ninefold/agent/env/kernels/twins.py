"""Float64 twins: each operation as its equation reads, in NumPy, with the size of what was summed on the way.

A twin returns for each output (value, scale): an error is measured against |value| + scale, so that a result that
cancels to nearly nothing is not asked for digits that no order of summation keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Inputs = Mapping[str, Array]
"""Arrays of the operation by name, in float64, shaped."""
Scalars = Mapping[str, float]
Twin = Callable[[Inputs, Scalars], tuple[tuple[Array, Array], ...]]


def _plain(value: Array) -> tuple[tuple[Array, Array], ...]:
    return ((value, np.zeros_like(value)),)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def situ(x: Inputs, c: Scalars) -> tuple[tuple[Array, Array], ...]:
    """SiTU-GLU (report, Stable LatentMoE): b1 tanh(g/b1) σ(g) · b2 tanh(u/b2)."""
    g, u = x["g"], x["u"]
    return _plain(c["b1"] * np.tanh(g / c["b1"]) * _sigmoid(g) * c["b2"] * np.tanh(u / c["b2"]))


def cumsum(x: Inputs, c: Scalars) -> tuple[tuple[Array, Array], ...]:
    """Running sums along each row, each term weighed by `decay` once for every step that it lies back."""
    value, scale = np.empty_like(x["x"]), np.empty_like(x["x"])
    total = np.zeros(len(value))
    size = np.zeros(len(value))
    for i in range(value.shape[1]):
        total = c["decay"] * total + x["x"][:, i]
        size = c["decay"] * size + np.abs(x["x"][:, i])
        value[:, i], scale[:, i] = total, size
    return ((value, scale),)


def softmax(x: Inputs, c: Scalars) -> tuple[tuple[Array, Array], ...]:
    """exp(scale·x − max) / Σ, along each row; an exponent of size z keeps its digits but for z units in the last place."""
    z = c["scale"] * x["x"]
    y = np.exp(z - z.max(-1, keepdims=True))
    y /= y.sum(-1, keepdims=True)
    return ((y, y * np.abs(z).max(-1, keepdims=True)),)


def rmsnorm(x: Inputs, c: Scalars) -> tuple[tuple[Array, Array], ...]:
    """x / √(mean x² + eps) · w, along each row."""
    return _plain(x["x"] / np.sqrt((x["x"] ** 2).mean(-1, keepdims=True) + c["eps"]) * x["w"])


def layernorm(x: Inputs, c: Scalars) -> tuple[tuple[Array, Array], ...]:
    """(x − mean) / √(variance + eps) · w + b, along each row."""
    centred = x["x"] - x["x"].mean(-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + c["eps"])
    size = np.abs(x["x"]) + np.abs(x["x"]).mean(-1, keepdims=True)
    return ((centred / deviation * x["w"] + x["b"], size / deviation * np.abs(x["w"]) + np.abs(x["b"])),)


def matmul(x: Inputs, c: Scalars) -> tuple[tuple[Array, Array], ...]:
    """relu(a b + bias) · alpha."""
    value = np.maximum(x["a"] @ x["b"] + x["bias"], 0) * c["alpha"]
    return ((value, (np.abs(x["a"]) @ np.abs(x["b"]) + np.abs(x["bias"])) * abs(c["alpha"])),)


def attention(x: Inputs, c: Scalars) -> tuple[tuple[Array, Array], ...]:
    """Causal softmax(scale · q kᵀ) v of one head."""
    logits = c["scale"] * (x["q"] @ x["k"].T)
    logits[np.triu_indices(len(logits), 1)] = -np.inf
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    terms = abs(c["scale"]) * (np.abs(x["q"]) @ np.abs(x["k"]).T)
    return ((p @ x["v"], (p @ np.abs(x["v"])) * (1 + terms.max(-1, keepdims=True))),)


def kda(x: Inputs, c: Scalars) -> tuple[tuple[Array, Array], ...]:
    """Kimi Delta Attention of one head (report Eq. 1): S ← (I − β k kᵀ) Diag(eᵍ) S + β k vᵀ, o = scale · Sᵀ q."""
    state = np.zeros((x["k"].shape[1], x["v"].shape[1]))
    size = np.zeros_like(state)
    value, scale = np.empty_like(x["v"]), np.empty_like(x["v"])
    for t in range(len(value)):
        k, beta = x["k"][t], x["beta"][t]
        state *= np.exp(x["g"][t])[:, None]
        size *= np.exp(x["g"][t])[:, None]
        state += beta * np.outer(k, x["v"][t] - k @ state)
        size += abs(beta) * np.outer(np.abs(k), np.abs(x["v"][t]) + np.abs(k) @ size)
        value[t], scale[t] = c["scale"] * (x["q"][t] @ state), abs(c["scale"]) * (np.abs(x["q"][t]) @ size)
    return ((value, scale),)


def _scales(x: Array, top: int) -> tuple[Array, Array]:
    """E8M0 bytes [rows, blocks] by OCP's floor rule, and what each block is divided by."""
    peak = np.abs(x).max(-1)
    exponent = np.where(peak > 0, np.floor(np.log2(np.where(peak > 0, peak, 1.0))), -127.0)
    byte = np.clip(exponent - top + 127, 0, 254)
    return byte.astype(np.uint8), np.exp2(np.maximum(byte, 1) - 127)[..., None]


def _rounded(scaled: Array, mantissa: int, lowest: int, largest: float) -> tuple[Array, Array]:
    """(sign, code without sign) of values rounded to nearest, ties to even, saturating; `lowest` is the least exponent."""
    size = np.minimum(np.abs(scaled), largest)
    exponent = np.maximum(np.floor(np.log2(np.where(size > 0, size, 1.0))), lowest)
    exponent = np.where(size > 0, exponent, lowest)
    steps = np.rint(size * np.exp2(mantissa - exponent))
    code = steps + (exponent - lowest) * 2**mantissa
    return np.signbit(scaled), np.minimum(code, _code(largest, mantissa, lowest))


def _code(value: float, mantissa: int, lowest: int) -> float:
    exponent = np.floor(np.log2(value))
    return float(value * 2.0 ** (mantissa - exponent) + (exponent - lowest) * 2**mantissa)


def mxfp8(x: Inputs, _: Scalars) -> tuple[tuple[Array, Array], ...]:
    """E4M3 codes and E8M0 scales of blocks of 32 (OCP Microscaling, floor rule)."""
    scales, divisor = _scales(x["x"], 8)
    sign, code = _rounded(x["x"] / divisor, 3, -6, 448.0)
    return _plain((sign * 128 + code).astype(np.uint8)) + _plain(scales)


def mxfp4(x: Inputs, _: Scalars) -> tuple[tuple[Array, Array], ...]:
    """E2M1 codes, the even element in the low nibble, and E8M0 scales of blocks of 32 (OCP Microscaling, floor rule)."""
    scales, divisor = _scales(x["x"], 2)
    sign, code = _rounded(x["x"] / divisor, 1, 0, 6.0)
    nibbles = (sign * 8 + code).astype(np.uint8)
    return _plain(nibbles[..., ::2] | (nibbles[..., 1::2] << 4)) + _plain(scales)


def copy(x: Inputs, _: Scalars) -> tuple[tuple[Array, Array], ...]:
    """y = x."""
    return _plain(x["x"])

"""Drawing tokens: noise that depends on a request's seed and the token's place alone, and the inverse distribution function.

Shapes: N rows, V vocabulary.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ninefold.model.ops import native

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))


def uniforms(seed_N: NDArray[np.uint64], place_N: NDArray[np.int64]) -> NDArray[np.float64]:
    """[N] in [0, 1) with 52 random bits: splitmix64 of the seed's own stream at `place`, whatever else is in the batch."""
    with np.errstate(over="ignore"):
        x = _finish(seed_N.astype(np.uint64)) + (place_N.astype(np.uint64) + np.uint64(1)) * _GOLDEN
    return (_finish(x) >> np.uint64(12)).astype(np.float64) * 2.0**-52


def _finish(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    with np.errstate(over="ignore"):
        for shift, factor in _MIX:
            x = (x ^ (x >> shift)) * factor
    return x ^ (x >> np.uint64(31))


def choose(logits_NV: Tensor, temperature_N: Tensor, top_p_N: Tensor, uniform_N: Tensor) -> Tensor:
    """[N] tokens: `draw` from `probabilities`, in one pass over the logits where there is no nucleus to cut."""
    if bool((top_p_N < 1).any()) or not native.usable(logits_NV):
        return draw(probabilities(logits_NV, temperature_N, top_p_N), uniform_N)
    N, V = logits_NV.shape
    assert temperature_N.shape == uniform_N.shape == (N,)
    assert temperature_N.dtype == uniform_N.dtype == torch.float64
    token_N, weight_V, group_V = torch.empty(N, dtype=torch.int64), logits_NV.new_empty(V), uniform_N.new_empty(V)
    native.call("softmax_draw", logits_NV.contiguous(), temperature_N, uniform_N, token_N, weight_V, group_V, N, V)
    return token_N


def logprob_of(logits_NV: Tensor, token_N: Tensor) -> Tensor:
    """[N] log-probabilities of the tokens at temperature 1."""
    return logits_NV.gather(1, token_N[:, None]).squeeze(1) - logits_NV.logsumexp(-1)


def probabilities(logits_NV: Tensor, temperature_N: Tensor, top_p_N: Tensor) -> Tensor:
    """[N, V] float64, the distribution that is drawn from; temperature 0 puts all on the largest logit."""
    greedy_N = temperature_N == 0
    scale_N = torch.where(greedy_N, 1.0, temperature_N)
    p_NV = torch.softmax(logits_NV.double() / scale_N[:, None], -1)
    if greedy_N.any():
        best_NV = torch.zeros_like(p_NV).scatter_(1, logits_NV.argmax(-1, keepdim=True), 1.0)
        p_NV = torch.where(greedy_N[:, None], best_NV, p_NV)
    cut_N = top_p_N < 1
    if cut_N.any():
        p_NV[cut_N] = _nucleus(p_NV[cut_N], top_p_N[cut_N].double())
    return p_NV


def _nucleus(p_NV: Tensor, top_p_N: Tensor) -> Tensor:
    """The likeliest tokens whose mass reaches top_p, renormalised; at least one."""
    sorted_NV, index_NV = p_NV.sort(-1, descending=True)
    before_NV = sorted_NV.cumsum(-1) - sorted_NV
    kept_NV = torch.where(before_NV < top_p_N[:, None], sorted_NV, 0.0)
    kept_NV[:, 0] = sorted_NV[:, 0]
    return torch.zeros_like(p_NV).scatter_(1, index_NV, kept_NV / kept_NV.sum(-1, keepdim=True))


def draw(p_NV: Tensor, uniform_N: Tensor) -> Tensor:
    """[N] first token whose cumulative probability exceeds the uniform; a token of probability 0 is never drawn."""
    cumulative_NV = p_NV.cumsum(-1)
    target_N1 = (uniform_N * cumulative_NV[:, -1])[:, None]
    return torch.searchsorted(cumulative_NV, target_N1, right=True).squeeze(-1)

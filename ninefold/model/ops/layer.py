"""What lies between a layer's input and output products, in one kernel each and without gradients: for generation.

The reference is the layer's own PyTorch form in `model.mla` and `model.moe`; `fits` says what the kernels take. KDA, with
gradients, is in `ops.kda_layer`.
Shapes: N rows, I columns of the input product, H heads, other letters as in those modules.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ninefold.model.ops import native

WIDE = 16
"""The kernels' products write so many columns at once."""
BLOCK = 32
"""Of the microscaling formats, along the latent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MLAWeights:
    """An MLA layer's own weights, laid out for the kernel."""

    query_norm_A: Tensor
    query_up_AX: Tensor
    """[query latent, H·Q]"""
    latent_norm_L: Tensor
    key_up_HNL: Tensor
    value_up_HLV: Tensor
    rope: int
    eps: float

    @property
    def fits(self) -> bool:
        own = (self.query_norm_A, self.query_up_AX, self.latent_norm_L, self.key_up_HNL, self.value_up_HLV)
        widths = (self.query_up_AX.shape[1], *self.value_up_HLV.shape[1:])
        return native.usable(*own) and all(width % WIDE == 0 for width in widths)


def mla_layer_step(x_BI: Tensor, weights: MLAWeights, cache_BSC: Tensor, position_B: Tensor) -> Tensor:
    """[B, H·V] one token of each row, from the latents' norms to the output gate; its entry is written at `position_B`.

    `x_BI` holds query latent, cached latent, shared key channels and output gate.
    """
    w, (B, S, C) = weights, cache_BSC.shape
    heads, nope, latent = w.key_up_HNL.shape
    value, query = w.value_up_HLV.shape[2], len(w.query_norm_A)
    assert latent + w.rope == C
    assert x_BI.shape == (B, query + C + heads * value)
    assert position_B.shape == (B,)
    assert int(position_B.max()) < S
    y_BX, scores_S = x_BI.new_empty(B, heads * value), x_BI.new_empty(S)
    own = (w.query_norm_A, w.query_up_AX, w.latent_norm_L, w.key_up_HNL, w.value_up_HLV)
    shape = (B, S, heads, query, nope, latent, w.rope, value)
    native.call("mla_layer_step", x_BI, *own, cache_BSC, position_B, scores_S, y_BX, *shape, w.eps)
    return y_BX


@dataclass(frozen=True, slots=True, kw_only=True)
class MoEWeights:
    """A LatentMoE layer's own weights, laid out for the kernel."""

    bias_E: Tensor
    w1_ELF: Tensor
    w3_ELF: Tensor
    w2_EFL: Tensor
    norm_L: Tensor
    top_k: int
    quantized: bool
    beta_gate: float
    beta_up: float
    eps: float

    @property
    def fits(self) -> bool:
        own = (self.bias_E, self.w1_ELF, self.w3_ELF, self.w2_EFL, self.norm_L)
        latent, inner = self.w1_ELF.shape[1:]
        return native.usable(*own) and latent % BLOCK == 0 and inner % WIDE == 0


def moe_layer(x_NI: Tensor, logits_NE: Tensor, weights: MoEWeights) -> Tensor:
    """[N, L + S] normed routed output beside the shared expert's hidden units, from the router's logits.

    `x_NI` holds latent, shared gate and shared up.
    """
    w, N = weights, len(x_NI)
    experts, latent, inner = w.w1_ELF.shape
    shared = (x_NI.shape[1] - latent) // 2
    assert x_NI.shape == (N, latent + 2 * shared)
    assert logits_NE.shape == (N, experts)
    y_NO = x_NI.new_empty(N, latent + shared)
    index, weight = torch.empty(2, N, w.top_k, dtype=torch.int64), x_NI.new_empty(N, w.top_k)
    own = (w.bias_E, w.w1_ELF, w.w3_ELF, w.w2_EFL, w.norm_L)
    scratch = (index[0], weight, index[1], x_NI.new_empty(N, latent))
    shape = (N, experts, w.top_k, latent, inner, shared, int(w.quantized))
    native.call("moe_layer", x_NI, logits_NE, *own, y_NO, *scratch, *shape, w.beta_gate, w.beta_up, w.eps)
    return y_NO

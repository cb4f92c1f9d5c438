"""Grouped-query attention with rotary positions, and a whole decoding step of Llama-family layers in one kernel.

Shapes: N rows, B cache rows, S places, H heads, G key-value heads, Q head width, F inner width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ninefold.model.ops import native
from ninefold.model.ops.product import Panels, scratch_size
from ninefold.model.ops.rope import Turn, rotate


def split(qkv_NX: Tensor, heads: int, shared: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries [N, H, Q], keys and values [N, G, Q]."""
    q, k, v = qkv_NX.unflatten(-1, (heads + 2 * shared, -1)).split((heads, shared, shared), -2)
    return q, k, v


def mixed(q_BHXQ: Tensor, k_BGSQ: Tensor, v_BGSQ: Tensor, visible: Tensor | None) -> Tensor:
    """[B, H, X, Q]; without `visible` a query sees its own place and those before it."""
    grouped = q_BHXQ.shape[1] != k_BGSQ.shape[1]
    return F.scaled_dot_product_attention(
        q_BHXQ, k_BGSQ, v_BGSQ, attn_mask=visible, is_causal=visible is None, enable_gqa=grouped
    )


def keys_values(entries_BSC: Tensor, shared: int) -> tuple[Tensor, Tensor]:
    """[B, G, S, Q] each of cache entries, without a copy."""
    k, v = entries_BSC.unflatten(-1, (2, shared, -1)).permute(2, 0, 3, 1, 4).unbind(0)
    return k, v


def entry(k_NGQ: Tensor, v_NGQ: Tensor) -> Tensor:
    """[N, 2·G·Q] what a token leaves in a cache, its key turned already."""
    return torch.cat([k_NGQ, v_NGQ], -2).flatten(1)


def gqa_step(qkv_BX: Tensor, turn: Turn, cache_BSC: Tensor, place_B: Tensor, heads: int, shared: int) -> Tensor:
    """[B, H·Q] of one token of each row, seeing its row up to itself; its entry is written at `place_B`."""
    if not native.usable(qkv_BX, cache_BSC, *turn):
        return gqa_step_torch(qkv_BX, turn, cache_BSC, place_B, heads, shared)
    B, (S, C) = len(qkv_BX), cache_BSC.shape[1:]
    width = C // (2 * shared)
    assert cache_BSC.is_contiguous() and len(cache_BSC) >= B and int(place_B.max()) < S  # noqa: PT018
    assert qkv_BX.shape == (B, (heads + 2 * shared) * width) and turn[0].shape == (B, width // 2)  # noqa: PT018
    mixed_BX, scores_S = qkv_BX.new_empty(B, heads * width), qkv_BX.new_empty(S)
    native.call("gqa_step", qkv_BX.contiguous(), *turn, cache_BSC, place_B, scores_S, mixed_BX, B, S, heads, shared, width)
    return mixed_BX


def gqa_step_torch(qkv_BX: Tensor, turn: Turn, cache_BSC: Tensor, place_B: Tensor, heads: int, shared: int) -> Tensor:
    """`gqa_step` in PyTorch, on any device."""
    q_BHQ, k_BGQ, v_BGQ = split(qkv_BX, heads, shared)
    cache_BSC[torch.arange(len(place_B)), place_B] = entry(rotate(k_BGQ, turn), v_BGQ)
    longest = int(place_B.max()) + 1
    visible = (torch.arange(longest) <= place_B[:, None])[:, None, None]
    k, v = keys_values(cache_BSC[:, :longest], shared)
    return mixed(rotate(q_BHQ, turn)[:, :, None], k, v, visible).flatten(1)


def swiglu(x_NF: Tensor) -> Tensor:
    """[N, F] silu(gate) · up, of [N, 2·F]."""
    gate, up = x_NF.chunk(2, -1)
    return F.silu(gate) * up


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaWeights:
    """All layers' weights, laid out for the kernel."""

    layers: tuple[tuple[Tensor, ...], ...]
    """Of each layer: norm, [X, D] to queries, keys and values, their bias or nothing, [D, H·Q], norm, [2·F, D], [D, F];
    matrices as `Panels`."""
    table: Tensor
    """Their addresses."""
    heads: int
    shared: int
    inner: int
    """F"""
    paired: bool
    """Matrices in bfloat16."""
    eps: float

    @staticmethod
    def of(layers: Sequence[tuple[Tensor | None, ...]], heads: int, shared: int, eps: float) -> LlamaWeights | None:
        """None where the kernel does not take them; matrices as [outputs, inputs], all in float32 or all in bfloat16."""
        down = layers[0][6]
        assert down is not None
        packed = tuple(tuple(laid for tensor in layer if (laid := _laid_out(tensor)) is not None) for layer in layers)
        if any(len(laid) < len(layer) for laid, layer in zip(packed, layers, strict=True)):
            return None
        table = torch.tensor([[t.data_ptr() for t in layer] for layer in packed])
        paired = down.dtype == torch.bfloat16
        return LlamaWeights(layers=packed, table=table, heads=heads, shared=shared, inner=down.shape[1], paired=paired, eps=eps)


def _laid_out(weight: Tensor | None) -> Tensor | None:
    """As the kernel reads it: a matrix in panels, a vector in float32, empty for nothing; None where it does not take it."""
    if weight is None:
        return torch.empty(0)
    if weight.dim() == 2:
        panels = Panels.of(weight)
        return panels and panels.data
    vector = weight.float() if weight.dtype == torch.bfloat16 else weight
    return vector if native.usable(vector) else None


def llama_step(
    x_BD: Tensor, weights: LlamaWeights, caches: Sequence[Tensor], turn: Turn, place_B: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """[B, D] residuals behind the first, the middle and the last layer, of one token of each row.

    `caches` hold [B or more, S, C] of each layer; entries are written at `place_B`.
    """
    w, (B, D) = weights, x_BD.shape
    S, C = caches[0].shape[1:]
    width = C // (2 * w.shared)
    assert all(cache.is_contiguous() and len(cache) >= B and cache.shape[1:] == (S, C) for cache in caches)
    assert turn[0].shape == turn[1].shape == (B, width // 2)
    assert place_B.shape == (B,)
    assert int(place_B.max()) < S
    first_BD, middle_BD, last_BD = x_BD.new_empty(B, D), x_BD.new_empty(B, D), x_BD.clone()
    wide = max((w.heads + 2 * w.shared) * width, 2 * w.inner)
    inner = max(w.heads * width, w.inner)
    scratch = x_BD.new_empty(B * (D + wide + inner) + max(S, scratch_size(B, max(D, inner))))
    shape = (len(w.layers), B, S, w.heads, w.shared, width, D, w.inner, int(w.paired))
    addresses = native.pointers(caches)
    native.call("llama_step", last_BD, first_BD, middle_BD, w.table, addresses, *turn, place_B, scratch, *shape, w.eps)
    return first_BD, middle_BD, last_BD

"""Decoding K3 from caches: packed continuations of rows, and lockstep steps of one token a row (spec 01, spec 12).

Rows of a cache stand at their own places; row i's next token goes to place `lengths[i]`. All under no_grad.
Shapes: B rows, S capacity in tokens, T packed tokens, D documents of a layout, also the hidden width where it stands last.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from ninefold.core.layout import DocLayout
from ninefold.model.k3 import K3, FusedK3, Hidden
from ninefold.model.kda import FusedKDA, KDAState
from ninefold.model.mla import FusedMLA

Rows = NDArray[np.int64]
"""Indices of cache rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """What B rows remember: a fixed-size state per KDA layer, an entry per token per MLA layer."""

    kda: Mapping[int, KDAState]
    """Layer → [B, …] states."""
    mla: Mapping[int, Tensor]
    """Layer → [B, S, C] entries."""
    lengths: NDArray[np.int64]
    """[B] tokens that each row has taken in."""

    @property
    def rows(self) -> int:
        return len(self.lengths)

    def copy(self, source: Rows, target: Rows) -> None:
        """Row `source[i]` over row `target[i]`; a source may stand several times, and no target may be a source."""
        longest = int(self.lengths[source].max(initial=0))
        take, put = torch.from_numpy(source), torch.from_numpy(target)
        for state in self.kda.values():
            for part in state:
                part[put] = part[take]
        for entries in self.mla.values():
            entries[put, :longest] = entries[take, :longest]
        self.lengths[target] = self.lengths[source]

    def swap(self, a: Rows, b: Rows) -> None:
        """Rows `a[i]` and `b[i]` change places; no row may stand twice."""
        both, crossed = np.concatenate([a, b]), np.concatenate([b, a])
        self.copy(both, crossed)

    def clear(self, rows: Rows) -> None:
        """Empty rows: nothing of what they held can be read again."""
        index = torch.from_numpy(rows)
        for state in self.kda.values():
            for part in state:
                part[index] = 0
        self.lengths[rows] = 0


class Decoder:
    """A snapshot of a model's weights in computing form; later changes of the model do not reach it."""

    def __init__(self, model: K3) -> None:
        self.config = model.config
        with torch.no_grad():
            self._model: FusedK3 = copy.deepcopy(model).fused()

    def new_cache(self, rows: int, capacity: int) -> Cache:
        """`rows` empty rows for up to `capacity` tokens each."""
        c = self.config
        heads, width = c.num_attention_heads, c.linear_head_dim
        kda = [n for n in range(c.num_hidden_layers) if not c.is_full_attention(n)]
        conv = (rows, c.short_conv_kernel_size - 1, 3 * heads * width)
        return Cache(
            kda={n: KDAState(torch.zeros(conv), torch.zeros(rows, heads, width, width)) for n in kda},
            mla={n: torch.zeros(rows, capacity, c.kv_lora_rank + c.qk_rope_head_dim) for n in c.full_attn_layers},
            lengths=np.zeros(rows, np.int64),
        )

    @torch.no_grad()
    def extend(self, ids_T: Tensor, layout: DocLayout, cache: Cache, rows: Rows) -> Hidden:
        """Document i goes on in cache row `rows[i]`, which may be empty; hidden states of all new tokens."""
        starts = cache.lengths[rows]
        index, starts_D = torch.from_numpy(rows), torch.from_numpy(starts)

        def attend(n: int, attention: FusedKDA | FusedMLA, x_TD: Tensor) -> Tensor:
            if isinstance(attention, FusedMLA):
                return attention.extend(x_TD, layout, cache.mla[n], index, starts_D)
            held = cache.kda[n]
            y_TD, after = attention.packed(x_TD, layout, KDAState(held.conv_DWC[index], held.delta_DHKV[index]))
            held.conv_DWC[index] = after.conv_DWC
            held.delta_DHKV[index] = after.delta_DHKV
            return y_TD

        hidden = self._model.run(ids_T, attend)
        cache.lengths[rows] = starts + layout.lengths
        return hidden

    @torch.no_grad()
    def step(self, ids_B: Tensor, cache: Cache) -> Hidden:
        """One token for each of the first `len(ids_B)` rows of the cache."""
        count = len(ids_B)
        lengths = cache.lengths[:count]
        places = torch.from_numpy(lengths.copy())
        hidden_BS = torch.arange(int(lengths.max()) + 1) > places[:, None]

        def attend(n: int, attention: FusedKDA | FusedMLA, x_BD: Tensor) -> Tensor:
            if isinstance(attention, FusedMLA):
                return attention.step(x_BD, cache.mla[n][:count], places, hidden_BS)
            held = cache.kda[n]
            return attention.step(x_BD, KDAState(held.conv_DWC[:count], held.delta_DHKV[:count]))

        hidden = self._model.run(ids_B, attend)
        cache.lengths[:count] += 1
        return hidden

    @torch.no_grad()
    def logits(self, hidden_ND: Tensor) -> Tensor:
        """[N, V]"""
        return F.linear(hidden_ND, self._model.head_VD)

"""Decoding K3 from caches: packed continuations of rows, and lockstep steps of one token a row (spec 01, spec 12).

Rows of a cache stand at their own places; row i's next token goes to place `lengths[i]`. All under no_grad.
Shapes: B rows, S capacity in tokens, T packed tokens, D documents of a layout, also the hidden width where it stands last.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ninefold.core.errors import UserError
from ninefold.core.layout import DocLayout
from ninefold.core.picture import Picture
from ninefold.core.types import IntArray
from ninefold.model.k3 import K3, FusedK3, Hidden, sight_of, without_placeholder
from ninefold.model.kda import FusedKDA, KDAState
from ninefold.model.layer import FusedLayer
from ninefold.model.mla import FusedMLA
from ninefold.model.ops.product import product
from ninefold.model.sight import Gallery

Rows = NDArray[np.int64]
"""Indices of cache rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """What B rows remember, by layer number."""

    states: Mapping[int, tuple[Tensor, ...]]
    """[B, …] of fixed size: a KDA layer's convolution inputs and delta memory."""
    entries: Mapping[int, Tensor]
    """[B, S, C] one entry a token: an MLA layer's latents."""
    lengths: NDArray[np.int64]
    """[B] tokens that each row has taken in."""
    late: tuple[int, ...] = ()
    """Layers whose entry i waits for token i + 1: a draft's."""

    @property
    def rows(self) -> int:
        return len(self.lengths)

    def copy(self, source: Rows, target: Rows) -> None:
        """Row `source[i]` over row `target[i]`, all at once; a source may stand several times, a target once."""
        longest = int(self.lengths[source].max(initial=0))
        take, put = torch.from_numpy(source), torch.from_numpy(target)
        for state in self.states.values():
            for part in state:
                part[put] = part[take]
        for entries in self.entries.values():
            entries[put, :longest] = entries[take, :longest]
        self.lengths[target] = self.lengths[source]

    def swap(self, a: Rows, b: Rows) -> None:
        """Rows `a[i]` and `b[i]` change places; no row may stand twice."""
        both, crossed = np.concatenate([a, b]), np.concatenate([b, a])
        self.copy(both, crossed)

    def clear(self, rows: Rows) -> None:
        """Empty rows: nothing of what they held can be read again."""
        index = torch.from_numpy(rows)
        for state in self.states.values():
            for part in state:
                part[index] = 0
        self.lengths[rows] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Where the states of continued rows are kept besides, on the way: a prefix cache needs them at set places (spec 07)."""

    after: NDArray[np.int64]
    """[D] new tokens of each document after which its states are kept; 0: nowhere."""
    states: dict[int, tuple[Tensor, ...]] = field(default_factory=dict[int, tuple[Tensor, ...]])
    """Layer → [K, …] the states of the K documents that are cut, as they come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A continuation that the cache has not taken in yet: its speculated end may be dropped (spec 01, replay)."""

    hidden: Hidden
    """Of all its tokens."""
    layout: DocLayout
    rows: Rows
    inputs: Mapping[int, Tensor]
    """KDA layer → [T, D] what it read."""
    layers: Sequence[FusedLayer]
    cache: Cache

    @torch.no_grad()
    def keep(self, counts: NDArray[np.int64], cut: Cut | None = None) -> None:
        """Take in the first `counts[i]` ≥ 1 tokens of each document: states are rebuilt from what the layers read."""
        kept_T = torch.from_numpy(self.layout.position < counts[self.layout.document])
        layout = DocLayout.of(counts.tolist())
        for n, x_TD in self.inputs.items():
            attention = self.layers[n].attention
            assert isinstance(attention, FusedKDA)
            _continue_kda(n, attention, x_TD[kept_T], layout, self.cache, self.rows, cut)
        self.cache.lengths[self.rows] += counts


class Decoder:
    """A snapshot of a model's weights in computing form; later changes of the model do not reach it."""

    def __init__(self, model: K3) -> None:
        self.config = model.config
        own = copy.deepcopy(model)
        with torch.no_grad():
            self._model: FusedK3 = own.fused()
        self._sight = sight_of(model.config)
        self._look = own.pictures
        self.gallery = Gallery(model.config.vocab_size)
        """Pictures that `see` was shown and that ids may name."""

    def new_cache(self, rows: int, capacity: int) -> Cache:
        """`rows` empty rows for up to `capacity` tokens each."""
        c = self.config
        heads, width = c.num_attention_heads, c.linear_head_dim
        kda = [n for n in range(c.num_hidden_layers) if not c.is_full_attention(n)]
        conv = (rows, c.short_conv_kernel_size - 1, 3 * heads * width)
        return Cache(
            states={n: KDAState(torch.zeros(conv), torch.zeros(rows, heads, width, width)) for n in kda},
            entries={n: torch.zeros(rows, capacity, c.kv_lora_rank + c.qk_rope_head_dim) for n in c.full_attn_layers},
            lengths=np.zeros(rows, np.int64),
        )

    @torch.no_grad()
    def see(self, ids: IntArray, pictures: Sequence[Picture]) -> IntArray:
        """The ids with each picture's placeholder replaced by the picture's own ids, equal for equal pictures.

        Raises UserError where the model reads no pictures, or there are more or fewer than placeholders.
        """
        sight = self._sight
        if sight is None:
            raise UserError("this model reads no pictures; choose one with vision, e.g. the preset nano-vision")
        counts = sight.repeats(ids, pictures)
        seen = np.repeat(ids, counts)
        ends = counts.cumsum()
        for place, picture in zip(np.flatnonzero(ids == sight.placeholder).tolist(), pictures):
            own = self.gallery.ids(picture, lambda picture: self._look(*sight.patches([picture])))
            seen[ends[place] - counts[place] : ends[place]] = own
        return seen

    def plain(self, ids_N: Tensor) -> Tensor:
        """Ids of the vocabulary: the placeholder's in place of pictures' own."""
        if self._sight is None:
            return ids_N
        return torch.where(ids_N < self.config.vocab_size, ids_N, self._sight.placeholder)

    def _embed(self, ids_N: Tensor) -> Tensor:
        x_ND = self._model.embed(self.plain(ids_N))
        if self.gallery.tokens:
            self.gallery.place(x_ND, ids_N)
        return x_ND

    @torch.no_grad()
    def extend(self, ids_T: Tensor, layout: DocLayout, cache: Cache, rows: Rows, cut: Cut | None = None) -> Hidden:
        """Document i goes on in cache row `rows[i]`, which may be empty; hidden states of all new tokens."""
        index, starts_D = torch.from_numpy(rows), torch.from_numpy(cache.lengths[rows])

        def attend(n: int, attention: FusedKDA | FusedMLA, x_TD: Tensor) -> Tensor:
            if isinstance(attention, FusedMLA):
                return attention.extend(x_TD, layout, cache.entries[n], index, starts_D)
            return _continue_kda(n, attention, x_TD, layout, cache, rows, cut)

        hidden = self._model.run_embedded(self._embed(ids_T), attend)
        cache.lengths[rows] += layout.lengths
        return hidden

    @torch.no_grad()
    def attempt(self, ids_T: Tensor, layout: DocLayout, cache: Cache, rows: Rows) -> Trial:
        """`extend` that leaves the rows where they are until `Trial.keep` says how far each goes."""
        index, starts_D = torch.from_numpy(rows), torch.from_numpy(cache.lengths[rows])
        inputs: dict[int, Tensor] = {}

        def attend(n: int, attention: FusedKDA | FusedMLA, x_TD: Tensor) -> Tensor:
            if isinstance(attention, FusedMLA):
                return attention.extend(x_TD, layout, cache.entries[n], index, starts_D)
            inputs[n] = x_TD
            conv, delta = cache.states[n]
            return attention.packed(x_TD, layout, KDAState(conv[index], delta[index]))[0]

        hidden = self._model.run_embedded(self._embed(ids_T), attend)
        return Trial(hidden=hidden, layout=layout, rows=rows, inputs=inputs, layers=self._model.layers, cache=cache)

    @torch.no_grad()
    def step(self, ids_B: Tensor, cache: Cache) -> Hidden:
        """One token for each of the first `len(ids_B)` rows of the cache."""
        count = len(ids_B)
        places, hidden_BS = step_mask(cache.lengths[:count])

        def attend(n: int, attention: FusedKDA | FusedMLA, x_BD: Tensor) -> Tensor:
            if isinstance(attention, FusedMLA):
                return attention.step(x_BD, cache.entries[n][:count], places, hidden_BS)
            conv, delta = cache.states[n]
            return attention.step(x_BD, KDAState(conv[:count], delta[:count]))

        hidden = self._model.run_embedded(self._embed(ids_B), attend)
        cache.lengths[:count] += 1
        return hidden

    @torch.no_grad()
    def logits(self, hidden_ND: Tensor) -> Tensor:
        """[N, V]"""
        return without_placeholder(product(hidden_ND, self._model.head_VD), self.config)


def step_mask(places: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """For rows whose next token goes to `places`: these as a tensor [B], and [B, S] True where a row may not look."""
    places_B = torch.from_numpy(places.copy())
    return places_B, torch.arange(int(places.max()) + 1) > places_B[:, None]


def _continue_kda(
    n: int, attention: FusedKDA, x_TD: Tensor, layout: DocLayout, cache: Cache, rows: Rows, cut: Cut | None
) -> Tensor:
    """[T, D] of documents that go on from `rows` of layer n's states, which move on with them."""
    (conv, delta), index = cache.states[n], torch.from_numpy(rows)
    before = KDAState(conv[index], delta[index])
    if cut is None or not cut.after.any():
        y_TD, after = attention.packed(x_TD, layout, before)
    else:
        y_TD, after, there = attention.packed_cut(x_TD, layout, before, cut.after)
        cut_D = torch.from_numpy(np.flatnonzero(cut.after))
        cut.states[n] = tuple(part[cut_D] for part in there)
    conv[index], delta[index] = after
    return y_TD

"""Lossless speculative decoding: a draft proposes, the target verifies all proposals in one packed pass (spec 03).

A proposal d of the draft's q is taken with probability min(1, p(d)/q(d)); the first refused one is replaced by a draw from
max(p − q, 0), and a token of the target's own follows when all are taken. What comes out is distributed as the target's p.
Shapes: B running rows, N proposals at most, V vocabulary, T packed tokens, D hidden width.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from ninefold.core.layout import DocLayout
from ninefold.engine.native import NativeConfig, NativeEngine
from ninefold.engine.sampling import draw, probabilities, uniforms
from ninefold.model.decode import Cache, Cut, Decoder, Rows, step_mask
from ninefold.model.draft import Draft, FusedDraft
from ninefold.model.k3 import K3, Hidden
from ninefold.model.llama import Llama

_PROPOSE, _ACCEPT = np.uint64(0x632BE59BD9B4E019), np.uint64(0xD6E8FEB86659FD93)
"""Set apart a request's noise for proposals and for accepting them."""


class SpeculativeConfig(NativeConfig):
    """Sizes of the speculative engine."""

    proposals: int = Field(default=3, ge=1)
    """Tokens the draft proposes at a time."""


def residual(p_NV: Tensor, q_NV: Tensor) -> Tensor:
    """[N, V] max(p − q, 0), normalised: what a refused proposal is replaced from; p itself where p = q."""
    left_NV = (p_NV - q_NV).clamp(min=0)
    mass_N1 = left_NV.sum(-1, keepdim=True)
    return torch.where(mass_N1 > 0, left_NV / mass_N1, p_NV)


class SpeculativeEngine(NativeEngine):
    """The native engine with a draft. After every round a row knows one token more than its cache has taken in."""

    def __init__(
        self, model: K3, draft: Draft, *, stop_ids: Sequence[int], config: SpeculativeConfig | None = None, version: int = 0
    ) -> None:
        """Whatever the draft, outputs keep the distribution of `model`; a draft of other weights is only refused more."""
        self._proposals = (config or SpeculativeConfig()).proposals
        with torch.no_grad():
            self._draft: FusedDraft = copy.deepcopy(draft).fused()
        self._layer = model.config.num_hidden_layers
        """Number under which the draft's own memory stands in the cache."""
        super().__init__(model, stop_ids=stop_ids, config=config or SpeculativeConfig(), version=version)

    def _new_cache(self, model: K3 | Llama) -> Cache:
        """With the draft's entries, and the fused feature of each row's last token, which waits for the token after it."""
        assert isinstance(model, K3)
        cache, c = super()._new_cache(model), model.config
        width = c.kv_lora_rank + c.qk_rope_head_dim
        entries = torch.zeros(cache.rows, self.config.capacity + self._proposals, width)
        waiting = (torch.zeros(cache.rows, c.hidden_size),)
        return replace(
            cache,
            entries={**cache.entries, self._layer: entries},
            states={**cache.states, self._layer: waiting},
            late=(self._layer,),
        )

    def _packs(self, lag: int) -> bool:
        """All of them: a round begins with every row one token behind."""
        return lag > 0

    def _run(self, rows: Rows, ids_T: Tensor, layout: DocLayout, cut: Cut) -> None:
        starts = self._cache.lengths[rows]
        hidden = self._decoder.extend(ids_T, layout, self._cache, rows, cut)
        self._inform(rows, starts, ids_T, layout, hidden, cut)

    @torch.no_grad()
    def _inform(
        self, rows: Rows, starts: NDArray[np.int64], ids_T: Tensor, layout: DocLayout, hidden: Hidden, cut: Cut
    ) -> None:
        """Let the draft read what the target took in: each token beside the feature of the one before it."""
        decoder = self._decoder
        assert isinstance(decoder, Decoder)
        (waiting_RD,) = self._cache.states[self._layer]
        rows_D = torch.from_numpy(rows)
        fused_TD = self._draft.fuse(hidden.features)
        before_TD = fused_TD.roll(1, 0)
        before_TD[torch.from_numpy(layout.cu_seqlens[:-1])] = waiting_RD[rows_D]
        waiting_RD[rows_D] = fused_TD[torch.from_numpy(layout.cu_seqlens[1:] - 1)]
        ends = (layout.cu_seqlens[:-1] + cut.after - 1)[cut.after > 0]
        cut.states[self._layer] = (fused_TD[torch.from_numpy(ends)],)
        place = starts[layout.document] + layout.position - 1
        known = np.flatnonzero(place >= 0)
        if len(known):
            index_T = torch.from_numpy(known)
            layer = self._draft.layer
            x_TD = layer.enter(self._draft.embed(decoder.plain(ids_T[index_T])), before_TD[index_T])
            where = torch.from_numpy(rows[layout.document[known]]), torch.from_numpy(place[known])
            self._cache.entries[self._layer][where] = layer.attention.entry(layer.attention_input(x_TD), where[1])

    @torch.no_grad()
    def _step(self) -> None:
        """One round: propose, verify, accept; every running row gains at least one token."""
        table = self._table
        rows = np.arange(table.running)
        room = table.limit[rows] - table.known[rows] - 1
        counts = np.where(table.constrained[rows] | (self._cache.lengths[rows] == 0), 0, np.minimum(room, self._proposals))
        proposed_BN, q_BNV = self._propose(rows, int(counts.max()))
        last = table.tokens[rows, table.known[rows] - 1]
        spans = [np.concatenate([last[r : r + 1], proposed_BN[r, : counts[r]]]) for r in rows]
        layout, ids_T = DocLayout.of([len(span) for span in spans]), torch.from_numpy(np.concatenate(spans))
        assert isinstance(self._decoder, Decoder)
        trial = self._decoder.attempt(ids_T, layout, self._cache, rows)
        new = self._accept(rows, counts, proposed_BN, q_BNV, trial.hidden.final_TD, layout)
        cut = self._pages.cut(rows, new)
        starts = self._cache.lengths[rows]
        trial.keep(new, cut)
        kept_T = torch.from_numpy(layout.position < new[layout.document])
        features = tuple(f[kept_T] for f in trial.hidden.features)
        assert len(features) == 3
        kept = Hidden(final_TD=features[2], features=features)
        self._inform(rows, starts, ids_T[kept_T], DocLayout.of(new.tolist()), kept, cut)
        self._pages.save_cut(rows, new, cut)
        self._end(rows)

    def _propose(self, rows: Rows, steps: int) -> tuple[np.ndarray, Tensor]:
        """[B, N] drafted tokens and [B, N, V] the distributions they were drawn from."""
        table, layer, count = self._table, self._draft.layer, len(rows)
        entries_BSC = self._cache.entries[self._layer][:count]
        hidden_BD = self._cache.states[self._layer][0][:count]
        temperature, top_p = torch.from_numpy(table.temperature[rows]), torch.from_numpy(table.top_p[rows])
        ids_B = torch.from_numpy(table.tokens[rows, table.known[rows] - 1])
        first = np.maximum(self._cache.lengths[rows] - 1, 0)
        tokens, distributions = list[Tensor](), list[Tensor]()
        for n in range(steps):
            x_BD = layer.enter(self._draft.embed(ids_B), hidden_BD)
            places_B, unseen_BS = step_mask(first + n)
            y_BD = layer.attention.step(layer.attention_input(x_BD), entries_BSC, places_B, unseen_BS)
            hidden_BD = layer.leave(x_BD + y_BD)
            q_BV = probabilities(self._draft.logits(hidden_BD), temperature, top_p)
            noise = uniforms(table.seed[rows] ^ _PROPOSE, table.known[rows] + n)
            ids_B = draw(q_BV, torch.from_numpy(noise))
            tokens.append(ids_B)
            distributions.append(q_BV)
        if not steps:
            return np.zeros((count, 0), np.int64), torch.zeros(count, 0, len(self._stops), dtype=torch.float64)
        return torch.stack(tokens, 1).numpy(), torch.stack(distributions, 1)

    def _accept(
        self, rows: Rows, counts: NDArray[np.int64], proposed_BN: np.ndarray, q_BNV: Tensor, final_TD: Tensor, layout: DocLayout
    ) -> NDArray[np.int64]:
        """Append each row's accepted tokens and the one after them, up to a stop; how many that were, [B]."""
        table = self._table
        logits_TV = self._decoder.logits(final_TD)
        logprobs_TV = torch.log_softmax(logits_TV, -1)
        self._constrain(logits_TV, rows, layout.cu_seqlens[:-1])
        of_T = rows[layout.document]
        p_TV = probabilities(logits_TV, torch.from_numpy(table.temperature[of_T]), torch.from_numpy(table.top_p[of_T]))
        taken = self._taken(rows, counts, proposed_BN, q_BNV, p_TV, layout)
        end = torch.from_numpy(layout.cu_seqlens[:-1] + taken)
        final_p_BV = p_TV[end]
        refused = np.flatnonzero(taken < counts)
        if len(refused):
            q_RV = q_BNV[torch.from_numpy(refused), torch.from_numpy(taken[refused])]
            final_p_BV[torch.from_numpy(refused)] = residual(final_p_BV[torch.from_numpy(refused)], q_RV)
        own_B = draw(final_p_BV, torch.from_numpy(uniforms(table.seed[rows], table.known[rows] + taken))).numpy()
        new = np.zeros(len(rows), np.int64)
        for i, row in enumerate(rows.tolist()):
            tokens = np.append(proposed_BN[i, : taken[i]], own_B[i])
            stops = np.flatnonzero(self._stops[tokens])
            tokens = tokens[: stops[0] + 1] if len(stops) else tokens
            span = slice(int(table.known[row]), int(table.known[row]) + len(tokens))
            first = int(layout.cu_seqlens[i])
            table.tokens[row, span] = tokens
            table.logprobs[row, span] = logprobs_TV[torch.arange(first, first + len(tokens)), torch.from_numpy(tokens)].numpy()
            new[i] = len(tokens)
        table.known[rows] += new
        table.drafted[rows] += counts
        table.accepted[rows] += np.minimum(taken, new)
        return new

    def _taken(
        self, rows: Rows, counts: NDArray[np.int64], proposed_BN: np.ndarray, q_BNV: Tensor, p_TV: Tensor, layout: DocLayout
    ) -> NDArray[np.int64]:
        """[B] proposals accepted before the first refusal."""
        width = proposed_BN.shape[1]
        if not width:
            return np.zeros(len(rows), np.int64)
        offered_BN = np.arange(width) < counts[:, None]
        place_BN = layout.cu_seqlens[:-1, None] + np.where(offered_BN, np.arange(width), 0)
        proposed = torch.from_numpy(proposed_BN)
        p_BN = p_TV[torch.from_numpy(place_BN), proposed].numpy()
        q_BN = q_BNV.gather(2, proposed[..., None]).squeeze(2).numpy()
        places = self._table.known[rows][:, None] + np.arange(width)
        seeds = np.broadcast_to((self._table.seed[rows] ^ _ACCEPT)[:, None], places.shape)
        noise_BN = uniforms(seeds.ravel(), places.ravel()).reshape(places.shape)
        return (offered_BN & (noise_BN * q_BN < p_BN)).cumprod(1).sum(1)

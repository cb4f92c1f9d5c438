"""Kimi Delta Attention in chunks: parallel inside a chunk by the UT transform, recurrent from chunk to chunk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from ninefold.core.layout import DocLayout

CHUNK = 32
TILE = 16
LOWEST_DECAY = -5.0
"""Down to this log decay a tile's cumulative decay stays above e^−80, so its reciprocal fits float32; over 32 it would not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChunkPlan:
    """Where each token goes when documents are cut into chunks, laid out step by step, longest documents first."""

    slot_T: Tensor
    """[T] row of the token among the N·CHUNK padded rows."""
    active: list[int]
    """Documents that still have a chunk at each step; these are always the first in rank."""
    rank_D: Tensor
    """[D] place of each document when ordered by number of chunks, most first."""

    @staticmethod
    def of(layout: DocLayout, device: torch.device) -> _ChunkPlan:
        chunks_D = -(-layout.lengths // CHUNK)
        rank_D = np.empty_like(chunks_D)
        rank_D[np.argsort(-chunks_D, kind="stable")] = np.arange(layout.documents)
        active = [int((chunks_D > step).sum()) for step in range(int(chunks_D.max()))]
        first = np.concatenate([[0], np.cumsum(active)])
        step_T, place_T = np.divmod(layout.position, CHUNK)
        slot_T = (first[step_T] + rank_D[layout.document]) * CHUNK + place_T
        return _ChunkPlan(slot_T=torch.from_numpy(slot_T).to(device), active=active, rank_D=torch.from_numpy(rank_D).to(device))

    def cut(self, x_TH: Tensor) -> Tensor:
        """[T, H, …] → [N, H, CHUNK, …]; the rows behind a document's end are 0, which neither write nor decay."""
        padded = x_TH.new_zeros(sum(self.active) * CHUNK, *x_TH.shape[1:]).index_copy(0, self.slot_T, x_TH)
        return padded.unflatten(0, (-1, CHUNK)).transpose(1, 2)

    def join(self, x_NHC: Tensor) -> Tensor:
        """[N, H, CHUNK, …] → [T, H, …], the inverse of `cut`."""
        return x_NHC.transpose(1, 2).flatten(0, 1).index_select(0, self.slot_T)


def kda_chunk(
    q_THK: Tensor,
    k_THK: Tensor,
    v_THV: Tensor,
    g_THK: Tensor,
    beta_TH: Tensor,
    layout: DocLayout,
    initial_DHKV: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`kda` in PyTorch, differentiable, on any device. g must lie in [−5, 0]. Computes in float32 (float64 stays).

    Returns o_THV in v's dtype and final_DHKV. Source: report, Kimi Delta Attention; Kimi Linear, the UT transform.
    """
    plan = _ChunkPlan.of(layout, q_THK.device)
    wide = torch.promote_types(q_THK.dtype, torch.float32)
    q, k, v, g = (plan.cut(x.to(wide)) for x in (q_THK, k_THK, v_THV, g_THK))
    beta = plan.cut(beta_TH.to(wide)[..., None])
    total = g.cumsum(-2)
    kk, qk = _decayed_products(k, q, total)
    # u = (I + tril(β k kᵀ))⁻¹ β (v − k S): a triangular solve, for powers of the matrix overflow where keys repeat.
    solved = torch.linalg.solve_triangular(
        (beta * kk).tril(-1), beta * torch.cat([k * total.exp(), v], -1), upper=False, unitriangular=True
    )
    w, u0 = solved.split([k.shape[-1], v.shape[-1]], -1)
    attention = qk.tril()
    q_in = q * total.exp()
    k_out = (k * (total[..., -1:, :] - total).exp()).mT
    decay = total[..., -1:, :].exp().mT

    first_in_rank = torch.argsort(plan.rank_D)
    if initial_DHKV is None:
        state = v.new_zeros(layout.documents, k.shape[1], k.shape[-1], v.shape[-1])
    else:
        state = initial_DHKV.to(wide).index_select(0, first_in_rank)
    outputs: list[Tensor] = []
    finals: list[Tensor] = []
    start = 0
    for step, documents in enumerate(plan.active):
        rows = slice(start, start + documents)
        u = u0[rows] - w[rows] @ state
        outputs.append(attention[rows] @ u + q_in[rows] @ state)
        state = decay[rows] * state + k_out[rows] @ u
        going_on = plan.active[step + 1] if step + 1 < len(plan.active) else 0
        finals.append(state[going_on:])
        state = state[:going_on]
        start += documents
    final = torch.cat(finals[::-1]).index_select(0, plan.rank_D)
    return plan.join(torch.cat(outputs)).to(v_THV.dtype), final


def _decayed_products(k: Tensor, q: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
    """Σ_c k_ic k_jc exp(G_ic − G_jc) for j ≤ i, and the same with q_i; what lies above the diagonal is arbitrary but finite.

    Both factors are anchored at the start of row i's tile, never at a later row: outputs may not depend on what follows.
    """
    rows: list[Tensor] = []
    for start in range(0, CHUNK, TILE):
        end = start + TILE
        anchor = total[..., start - 1 : start, :] if start else torch.zeros_like(total[..., :1, :])
        left = (total[..., start:end, :] - anchor).exp()
        right = k[..., :end, :] * (anchor - total[..., :end, :]).exp()
        both = torch.cat([k[..., start:end, :] * left, q[..., start:end, :] * left], -2)
        rows.append(pad(both @ right.mT, (0, CHUNK - end)))
    kk, qk = zip(*(row.split(TILE, -2) for row in rows))
    return torch.cat(kk, -2), torch.cat(qk, -2)

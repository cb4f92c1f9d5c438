"""KDA over segments of a document (report Eq. 17, KCP): what a segment does to the state is affine, and composes.
And what else a layer must know of the ranks before it.

Shapes as in `ops.kda`; R ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from ninefold.core.errors import UserError
from ninefold.core.layout import DocLayout
from ninefold.model.ops.kda import kda


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """S_out = transfer · S_in + written."""

    transfer_HKK: Tensor
    """M: the product of (I − β k kᵀ) Diag(α), the newest on the left."""
    written_HKV: Tensor
    """S̃: the state that the segment leaves when it starts from zero."""

    def __call__(self, state_HKV: Tensor) -> Tensor:
        return self.transfer_HKK @ state_HKV + self.written_HKV

    def after(self, earlier: Segment) -> Segment:
        """The two as one; associative."""
        return Segment(transfer_HKK=self.transfer_HKK @ earlier.transfer_HKK, written_HKV=self(earlier.written_HKV))


def summarise(k_THK: Tensor, v_THV: Tensor, g_THK: Tensor, beta_TH: Tensor) -> Segment:
    """The segment of these tokens, by one pass of the recurrence over [v, 0] from the state [0, I]."""
    tokens, heads, width = k_THK.shape
    values = torch.cat([v_THV, v_THV.new_zeros(tokens, heads, width)], -1)
    identity = torch.eye(width, dtype=torch.promote_types(v_THV.dtype, torch.float32), device=v_THV.device)
    start_HKX = torch.cat([identity.new_zeros(width, v_THV.shape[-1]), identity], -1).expand(heads, -1, -1)
    queries = torch.zeros_like(k_THK)
    _, final_1HKX = kda(queries, k_THK, values, g_THK, beta_TH, DocLayout.of([tokens]), start_HKX[None])
    written_HKV, transfer_HKK = final_1HKX[0].split([v_THV.shape[-1], width], -1)
    return Segment(transfer_HKK=transfer_HKK, written_HKV=written_HKV)


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """The consecutive tokens of a packed batch that this rank holds; every rank knows the whole layout."""

    whole: DocLayout
    cuts: tuple[int, ...]
    """[R + 1] first token of each rank, then the number of all."""
    rank: int
    group: dist.ProcessGroup | None = None

    @staticmethod
    def even(whole: DocLayout, group: dist.ProcessGroup | None = None) -> Stretch:
        """As many tokens to each rank, to one."""
        assert whole.trunks is None, "documents with a trunk are not split over ranks"
        ranks = dist.get_world_size(group)
        cuts = tuple(whole.tokens * rank // ranks for rank in range(ranks + 1))
        return Stretch(whole=whole, cuts=cuts, rank=dist.get_rank(group), group=group)

    @property
    def tokens(self) -> slice:
        return slice(self.cuts[self.rank], self.cuts[self.rank + 1])

    @cached_property
    def before(self) -> int:
        """Tokens of the first piece's document that lie on earlier ranks."""
        return int(self.whole.position[self.tokens.start])

    @cached_property
    def layout(self) -> DocLayout:
        """Of the pieces of documents on this rank."""
        _, lengths = np.unique(self.whole.document[self.tokens], return_counts=True)
        return DocLayout.of(lengths.tolist())

    @cached_property
    def seen(self) -> DocLayout:
        """Of the same documents from their beginnings to where this rank ends."""
        return DocLayout.of([self.before + int(self.layout.lengths[0]), *self.layout.lengths[1:].tolist()])

    def gather_seen(self, x_TC: Tensor) -> Tensor:
        """Rows of `seen`, of which this rank has the last; differentiable, one all-gather."""
        sizes = [end - start for start, end in pairwise(self.cuts)]
        return _Gather.apply(x_TC, sizes, self.rank, self.group)[self.tokens.start - self.before : self.tokens.stop]

    def window(self, x_TC: Tensor, width: int) -> Tensor:
        """[D, width, C] the rows before each piece, oldest first; zeros before a document begins. One all-gather."""
        if min(end - start for start, end in pairwise(self.cuts)) < width:
            raise UserError(
                f"{self.whole.tokens} tokens cannot be split over {len(self.cuts) - 1} ranks: each needs {width}, for the "
                f"convolution of the next one"
            )
        tails_XC = _Gather.apply(x_TC[-width:], [width] * (len(self.cuts) - 1), self.rank, self.group)
        last_WC = tails_XC.unflatten(0, (-1, width))[self.rank - 1]
        inside_W = torch.arange(width, device=x_TC.device) >= width - min(self.before, width)
        first_1WC = torch.where(inside_W[:, None], last_WC, 0.0)[None]
        return torch.cat([first_1WC, first_1WC.new_zeros(self.layout.documents - 1, *first_1WC.shape[1:])])


class _Gather(torch.autograd.Function):
    """Rows of all ranks, end to end; the gradient of a row is summed over the ranks that read it."""

    @staticmethod
    def forward(ctx: Any, x_TC: Tensor, sizes: list[int], rank: int, group: dist.ProcessGroup | None) -> Tensor:
        longest = x_TC.new_zeros(max(sizes), *x_TC.shape[1:])
        longest[: len(x_TC)] = x_TC
        parts = [torch.empty_like(longest) for _ in sizes]
        dist.all_gather(parts, longest, group=group)
        ctx.mine, ctx.group = slice(sum(sizes[:rank]), sum(sizes[: rank + 1])), group
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        summed = grads[0].contiguous().clone()
        dist.all_reduce(summed, group=ctx.group)
        return summed[ctx.mine], None, None, None


def kda_parallel(
    q_THK: Tensor,
    k_THK: Tensor,
    v_THV: Tensor,
    g_THK: Tensor,
    beta_TH: Tensor,
    layout: DocLayout,
    *,
    continues: bool,
    group: dist.ProcessGroup | None = None,
) -> tuple[Tensor, Tensor]:
    """`kda` of this rank's tokens, where ranks hold consecutive stretches of one packed batch.

    `layout` is that of the pieces which lie on this rank; `continues` says that its first piece goes on from the rank before.
    One all-gather of a state and a transfer a rank, whatever the length; exact. Every rank must call this, and backward too.
    """
    inputs = (q_THK, k_THK, v_THV, g_THK, beta_TH)
    first = int(layout.cu_seqlens[-2])
    segment = summarise(*(x[first:] for x in inputs[1:]))
    # What comes in reaches the next rank only through a piece that fills this one.
    through = continues and layout.documents == 1
    transfer_HKK = segment.transfer_HKK if through else torch.zeros_like(segment.transfer_HKK)
    entering_HKV = _Entering.apply(transfer_HKK, segment.written_HKV, group)
    if not continues:  # Still part of the graph: in backward all ranks meet in a reduction.
        entering_HKV = entering_HKV * 0.0
    fresh_DHKV = entering_HKV.new_zeros(layout.documents - 1, *entering_HKV.shape)
    return kda(*inputs, layout, torch.cat([entering_HKV[None], fresh_DHKV]))


class _Entering(torch.autograd.Function):
    """The state that enters this rank: the segments of all ranks before it, folded in order from zero."""

    @staticmethod
    def forward(ctx: Any, transfer_HKK: Tensor, written_HKV: Tensor, group: dist.ProcessGroup | None) -> Tensor:
        mine_HKX = torch.cat([transfer_HKK, written_HKV], -1)
        parts = [torch.empty_like(mine_HKX) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, mine_HKX, group=group)
        ctx.group = group
        ctx.save_for_backward(torch.stack(parts))
        return _fold(parts[: dist.get_rank(group)], written_HKV)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (gathered_RHKX,) = ctx.saved_tensors
        rank = dist.get_rank(ctx.group)
        asked_RHKX = torch.zeros_like(gathered_RHKX)
        if rank:
            with torch.enable_grad():
                earlier = gathered_RHKX[:rank].detach().requires_grad_()
                (asked_RHKX[:rank],) = torch.autograd.grad(_fold(list(earlier), grads[0]), earlier, grads[0])
        dist.all_reduce(asked_RHKX, group=ctx.group)
        width = gathered_RHKX.shape[-2]
        return asked_RHKX[rank, ..., :width], asked_RHKX[rank, ..., width:], None


def _fold(segments: Sequence[Tensor], like_HKV: Tensor) -> Tensor:
    """Segments [H, K, K + V], transfer beside written, applied in order to a state of zeros."""
    state_HKV = torch.zeros_like(like_HKV)
    for segment_HKX in segments:
        transfer, written = segment_HKX.split([segment_HKX.shape[-2], like_HKV.shape[-1]], -1)
        state_HKV = Segment(transfer_HKK=transfer, written_HKV=written)(state_HKV)
    return state_HKV

"""Heads that a sharding cuts through: who orthogonalises each, and the rows that travel to it and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A head of a parameter whose rows lie on several ranks."""

    member: int
    """Number of the parameter."""
    pieces: tuple[range, ...]
    """Rows of the parameter, as one matrix, that each rank holds of the head; empty for most ranks."""
    cols: int
    owner: int = 0
    """The rank that puts the head together."""

    @property
    def height(self) -> int:
        return sum(map(len, self.pieces))

    @property
    def work(self) -> int:
        """In proportion to the cost of orthogonalising."""
        return self.height * self.cols * min(self.height, self.cols)


def cuts_of(member: int, rows: Sequence[range], height: int, cols: int) -> list[Cut]:
    """The heads of `height` rows that end in another rank than they begin; `rows` are those of each rank."""
    ends = {r.stop for r in rows[:-1] if r.stop % height}
    heads = sorted({end // height for end in ends if end < rows[-1].stop})
    return [Cut(member=member, pieces=tuple(_within(r, head * height, height) for r in rows), cols=cols) for head in heads]


def _within(rows: range, first: int, height: int) -> range:
    low, high = max(rows.start, first), min(rows.stop, first + height)
    return range(low, max(low, high))


def owned(cuts: Sequence[Cut]) -> list[Cut]:
    """The cuts with their owners: the most work first, each to the least busy of the ranks that hold a piece of it."""
    busy = [0] * (len(cuts[0].pieces) if cuts else 0)
    settled: list[Cut] = []
    for cut in sorted(cuts, key=lambda c: -c.work):
        owner = min((r for r, piece in enumerate(cut.pieces) if piece), key=busy.__getitem__)
        busy[owner] += cut.work
        settled.append(Cut(member=cut.member, pieces=cut.pieces, cols=cut.cols, owner=owner))
    return settled


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Two all-to-alls: every row of a cut head travels to its owner once, and back once; no other row travels."""

    cuts: Sequence[Cut]
    rank: int
    group: dist.ProcessGroup

    def collect(self, piece_of: Sequence[Tensor]) -> list[Tensor]:
        """[height, cols] of each cut head that this rank owns, from every rank's pieces [rows, cols], one a cut."""
        ranks = range(len(self.cuts[0].pieces))
        out = [[p for c, p in zip(self.cuts, piece_of, strict=True) if c.owner == r] for r in ranks]
        mine = [c for c in self.cuts if c.owner == self.rank]
        come = self._travel(out, [[(len(c.pieces[r]), c.cols) for c in mine] for r in ranks])
        return [torch.cat(parts) for parts in zip(*come, strict=True)]

    def give_back(self, heads: Sequence[Tensor]) -> list[Tensor]:
        """The inverse of `collect`: this rank's piece of every cut head, from the heads that each rank owns."""
        ranks = range(len(self.cuts[0].pieces))
        mine = [c for c in self.cuts if c.owner == self.rank]
        split = [h.split([len(p) for p in c.pieces]) for c, h in zip(mine, heads, strict=True)]
        shapes = [[(len(c.pieces[self.rank]), c.cols) for c in self.cuts if c.owner == r] for r in ranks]
        come = [iter(parts) for parts in self._travel([[s[r] for s in split] for r in ranks], shapes)]
        return [next(come[c.owner]) for c in self.cuts]

    def _travel(self, out: Sequence[Sequence[Tensor]], shapes: Sequence[Sequence[tuple[int, int]]]) -> list[list[Tensor]]:
        """Matrices to each rank; matrices of these shapes from each rank."""
        sizes = [[rows * cols for rows, cols in of_rank] for of_rank in shapes]
        like = next(m for of_rank in out for m in of_rank) if any(out) else torch.zeros(0)
        sent = [torch.cat([like.new_zeros(0), *(m.flatten() for m in of_rank)]) for of_rank in out]
        received = like.new_empty(sum(map(sum, sizes)))
        dist.all_to_all_single(
            received, torch.cat(sent), [sum(of_rank) for of_rank in sizes], [len(s) for s in sent], group=self.group
        )
        parts = received.split([sum(of_rank) for of_rank in sizes])
        return [[m.view(s) for m, s in zip(p.split(n), of)] for p, n, of in zip(parts, sizes, shapes, strict=True)]

"""Per-Head Muon: momentum orthogonalised head by head, expert by expert, with the step size of AdamW."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from ninefold.core.config import Config
from ninefold.learn.optim.assign import Assigned
from ninefold.learn.optim.cut import Cut, Exchange, cuts_of, owned
from ninefold.learn.sharding import group_of, local, rank_of, rows_of_ranks
from ninefold.model.ops.newton_schulz import newton_schulz


class MuonConfig(Config):
    """Muon's constants."""

    lr: float = Field(default=0.01, gt=0)
    """Peak learning rate."""
    momentum: float = Field(default=0.95, ge=0, lt=1)
    weight_decay: float = Field(default=0.1, ge=0)
    """Decoupled: weights shrink by lr · weight_decay each step."""
    rms: float = Field(default=0.2, gt=0)
    """Root mean square of an update before the learning rate: that of AdamW (Moonlight)."""


class Muon(torch.optim.Optimizer):
    """Muon with Nesterov momentum over matrices [R, C] and stacks of them [E, R, C].

    Each matrix's update is the orthogonalised momentum times rms · √max(rows, cols), rows and cols those of the block that was
    orthogonalised: a head's part of Q, K or V, one expert, or the whole (report, Per-Head Muon; Moonlight, update RMS).
    Blocks of one shape go through Newton–Schulz together. Of sharded parameters (`learn.sharding`) a rank keeps the momentum of
    its own rows; a head that lies on one rank is orthogonalised there, one that is cut by whichever rank owns it.
    """

    def __init__(self, matrices: Iterable[Assigned], config: MuonConfig) -> None:
        groups: dict[Any, list[Tensor]] = defaultdict(list)
        for matrix in matrices:
            assert matrix.parameter.ndim in (2, 3), f"{matrix.name} is no matrix: {tuple(matrix.parameter.shape)}"
            groups[(matrix.rule.heads, matrix.rule.within, matrix.rule.decay)].append(matrix.parameter)
        super().__init__(
            [
                {"params": members, "heads": heads, "within": within, "weight_decay": config.weight_decay if decay else 0.0}
                for (heads, within, decay), members in groups.items()
            ],
            {"lr": config.lr, "momentum": config.momentum, "rms": config.rms},
        )

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Update every parameter that has a gradient; the others keep their weights and momentum."""
        moves = [
            _Move(group=group, member=member, update=self._ahead(member, group["momentum"]))
            for group in self.param_groups
            for member in group["params"]
            if member.grad is not None
        ]
        cuts = owned([cut for n, move in enumerate(moves) for cut in move.cuts(n)])
        pieces = [moves[cut.member].piece(cut) for cut in cuts]
        exchange = Exchange(cuts=cuts, rank=rank_of(moves[0].member), group=group_of(moves[0].member)) if cuts else None
        gathered = exchange.collect(pieces) if exchange else []
        mine = [moves[cut.member] for cut in cuts if exchange and cut.owner == exchange.rank]
        _orthogonalise(
            [
                *(block_BRC for move in moves for block_BRC in move.blocks()),
                *(b for move, head_RC in zip(mine, gathered) for b in blocks(head_RC, 1, move.group["within"])),
            ]
        )
        if exchange:
            for piece_RC, done_RC in zip(pieces, exchange.give_back(gathered)):
                piece_RC.copy_(done_RC)
        for move in moves:
            weight, group = local(move.member), move.group
            weight.mul_(1 - group["lr"] * group["weight_decay"]).sub_(move.update, alpha=group["lr"] * group["rms"])

    def _ahead(self, member: Tensor, momentum: float) -> Tensor:
        """Nesterov's look-ahead: the gradient plus the next share of the updated momentum; this rank's part, fresh."""
        assert member.grad is not None
        state = self.state[member]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(member, memory_format=torch.contiguous_format)
        gradient = local(member.grad)
        return local(state["momentum"]).mul_(momentum).add_(gradient).mul(momentum).add_(gradient)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Move:
    """A parameter on its way; stacked matrices count as one, end to end."""

    group: dict[str, Any]
    member: Tensor
    update: Tensor
    """This rank's part: momentum first, then its orthogonal factors."""

    @property
    def height(self) -> int:
        """Rows of a head."""
        return self.member.shape[-2] // self.group["heads"]

    def rows(self) -> list[range]:
        """The rows that each rank holds."""
        each = self.member.shape[1] if self.member.ndim == 3 else 1
        return [range(r.start * each, r.stop * each) for r in rows_of_ranks(self.member)]

    def cuts(self, number: int) -> list[Cut]:
        """The heads that lie on several ranks."""
        return cuts_of(number, self.rows(), self.height, self.member.shape[-1])

    def piece(self, cut: Cut) -> Tensor:
        """[rows, cols] view of what this rank holds of a cut head."""
        rank, cols = rank_of(self.member), self.member.shape[-1]
        mine, first = cut.pieces[rank], self.rows()[rank].start
        return self.update.view(-1, cols)[mine.start - first : mine.stop - first] if mine else self.update.new_zeros(0, cols)

    def blocks(self) -> list[Tensor]:
        """`blocks` of the heads that lie wholly on this rank."""
        rows, height, cols = self.rows()[rank_of(self.member)], self.height, self.member.shape[-1]
        first, last = -(-rows.start // height), rows.stop // height
        if first >= last:
            return []
        heads_RC = self.update.view(-1, cols)[first * height - rows.start : last * height - rows.start]
        return blocks(heads_RC, last - first, self.group["within"])


def blocks(matrix: Tensor, heads: int, within: tuple[int, ...]) -> list[Tensor]:
    """Views [B, rows, cols] of a matrix or a stack, that together cover it: one for each part of a head."""
    cols = matrix.shape[-1]
    assert matrix.shape[-2] % heads == 0, f"{matrix.shape[-2]} rows are not {heads} heads"
    head_BRC = matrix.view(-1, matrix.shape[-2] // heads, cols)
    if not within:
        return [head_BRC]
    assert sum(within) == head_BRC.shape[1], f"{within} do not make a head of {head_BRC.shape[1]} rows"
    return list(head_BRC.split(within, dim=1))


def _orthogonalise(stacks_BRC: Sequence[Tensor]) -> None:
    """Replace every matrix of these stacks by its orthogonal factor times √max(rows, cols)."""
    alike: dict[tuple[int, int], list[Tensor]] = defaultdict(list)
    for stack_BRC in stacks_BRC:
        alike[(stack_BRC.shape[1], stack_BRC.shape[2])].append(stack_BRC)
    for shape, members_BRC in alike.items():
        together = newton_schulz(torch.cat(members_BRC)).mul_(max(shape) ** 0.5)
        for member, done in zip(members_BRC, together.split([len(m) for m in members_BRC]), strict=True):
            member.copy_(done)

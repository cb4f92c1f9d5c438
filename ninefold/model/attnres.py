"""Block Attention Residuals (report Eq. 8–10, spec 01): the sites' parameters and the sources that a forward gathers; and the
plain residual stream that they are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor, nn

from ninefold.model.norm import RMSNorm, rms_norm
from ninefold.model.ops import native
from ninefold.model.ops.attnres import Source, read, read_into


class Query(nn.Module):
    """Pseudo-query of one site, in the public [1, hidden] shape; zero at first, which mixes uniformly."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, width))


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where a sub-layer, or the output, reads the residual stream."""

    query_D: Tensor
    norm_D: Tensor
    """Scale of the norm that the sources are scored through."""

    @staticmethod
    def of(norm: RMSNorm, query: Query) -> Site:
        return Site(query_D=query.weight[0], norm_D=norm.weight)

    @cached_property
    def key_D(self) -> Tensor:
        return self.query_D * self.norm_D


class Stream(Protocol):
    """What the sub-layers of one forward read and write, [N, D]."""

    def read(self, site: Site | None, norm_D: Tensor) -> Tensor:
        """What a sub-layer computes from, behind its own norm."""
        ...

    def add(self, y_ND: Tensor) -> None:
        """A sub-layer's output joins."""
        ...

    def close_block(self) -> None:
        """The layers so far make a block."""
        ...

    def outputs(self) -> list[Tensor]:
        """Of each block, the running one last."""
        ...


class PlainStream:
    """A pre-norm residual stream: every site reads the sum of all before it; a block's output is the sum at its end."""

    def __init__(self, embedded_ND: Tensor, eps: float) -> None:
        self._sum, self._eps = embedded_ND, eps
        self._closed: list[Tensor] = []

    def read(self, site: Site | None, norm_D: Tensor) -> Tensor:
        assert site is None, "a plain stream has no queries"
        return rms_norm(self._sum, norm_D, self._eps)

    def add(self, y_ND: Tensor) -> None:
        self._sum = self._sum + y_ND

    def close_block(self) -> None:
        self._closed.append(self._sum)

    def outputs(self) -> list[Tensor]:
        return [*self._closed, self._sum]


class FrozenStream:
    """`ResidualStream` without gradients, for the kernel: the sources lie in one buffer, and sums are made in place."""

    def __init__(self, embedded_ND: Tensor, blocks: int, eps: float) -> None:
        self._values = list(embedded_ND.new_empty(1 + blocks, *embedded_ND.shape).unbind())
        self._values[0].copy_(embedded_ND)
        self._pointers, self._eps = native.pointers(self._values), eps
        self._count, self._running = 1, False

    def read(self, site: Site | None, norm_D: Tensor) -> Tensor:
        assert site is not None, "every site of this stream has a query"
        if self._count == 1:
            return rms_norm(self._values[0], norm_D, self._eps)
        y_ND = torch.empty_like(self._values[0])
        read_into(y_ND, self._pointers, self._count, site.key_D, norm_D, self._eps)
        return y_ND

    def add(self, y_ND: Tensor) -> None:
        if self._running:
            self._values[self._count - 1].add_(y_ND)
        else:
            self._values[self._count].copy_(y_ND)
            self._count, self._running = self._count + 1, True

    def close_block(self) -> None:
        assert self._running, "a block without layers"
        self._running = False

    def outputs(self) -> list[Tensor]:
        return self._values[1 : self._count]


def stream(embedded_ND: Tensor, *, mixes: bool, blocks: int, eps: float) -> Stream:
    """The stream of a forward: plain, or of attention residuals over so many blocks."""
    if not mixes:
        return PlainStream(embedded_ND, eps)
    if torch.is_grad_enabled() or not native.usable(embedded_ND):
        return ResidualStream(embedded_ND, eps)
    return FrozenStream(embedded_ND, blocks, eps)


class ResidualStream:
    """The sources of one forward: the embedding, the finished blocks, and the running sum of the block at work."""

    def __init__(self, embedded_ND: Tensor, eps: float) -> None:
        self._eps = eps
        self._finished = [Source.of(embedded_ND, eps)]
        self._partial: Tensor | None = None

    def read(self, site: Site | None, norm_D: Tensor) -> Tensor:
        """[N, D] the site's view of all sources, behind its sub-layer's norm."""
        assert site is not None, "every site of this stream has a query"
        running = [] if self._partial is None else [Source.of(self._partial, self._eps)]
        return read([*self._finished, *running], site.key_D, norm_D)

    def add(self, y_ND: Tensor) -> None:
        """A sub-layer's output joins the running sum."""
        self._partial = y_ND if self._partial is None else self._partial + y_ND

    def close_block(self) -> None:
        """The running sum becomes a source of its own and starts afresh."""
        assert self._partial is not None, "a block without layers"
        self._finished.append(Source.of(self._partial, self._eps))
        self._partial = None

    def outputs(self) -> list[Tensor]:
        """[N, D] of each block, the running one last."""
        assert self._partial is not None, "the last block is still empty"
        return [*(source.value_TD for source in self._finished[1:]), self._partial]

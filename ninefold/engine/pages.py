"""The pool's memory beside the rows that decode: copied in on a hit, written back when a row's turn is over (spec 07).

Rows that run stay dense, as spec 07 has it for KDA states; the pool holds what nobody changes any more. [ours] for attention
entries too: the kernels of a decoding step read a row's entries as one piece of memory, and looking every token's page up would
cost more than copying a hit once. Pages of entries and of KDA states have the same size in bytes: a block is as many tokens as
make the entries of all attention layers as large as the states of as many KDA layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import ceil

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ninefold.core.types import IntArray
from ninefold.engine.policy.prefix import Pages, PrefixCache
from ninefold.model.decode import Cache, Cut, Rows

States = Mapping[int, Sequence[NDArray[np.float32]]]
"""Layer → parts [rows, …] of its state."""


class PagedRows:
    """A pool of pages for one cache of dense rows."""

    def __init__(self, cache: Cache, *, grain: int, megabytes: float) -> None:
        """`grain` tokens to a hash; at most so much memory, which is touched as it is used."""
        self._lengths = cache.lengths
        self._entries = [entries.numpy() for entries in cache.entries.values()]
        self._late = [int(n in cache.late) for n in cache.entries]
        """Places before a token's own at which each layer keeps its entry."""
        self._states = flat(cache.states)
        layers, width = len(self._entries), sum(entries.shape[2] for entries in self._entries)
        # K3's 69 KDA layers beside 24 attention layers are three groups.
        groups = [list(self._states)[n : n + layers] for n in range(0, len(self._states), layers)]
        self._groups = [self._places(group) for group in groups]
        largest = max((group[-1][2].stop for group in self._groups), default=1)
        block = grain * ceil(largest / (width * grain))
        pages = int(megabytes * 2**20) // (4 * block * width)
        self._memory = np.empty((pages, block * width), np.float32)
        self._blocks = self._memory.reshape(pages, block, width)
        self.prefix = PrefixCache(pages=pages, grain=grain, block=block, groups=len(self._groups))
        self.clear(0)

    def clear(self, version: int) -> None:
        """New weights: nothing of the old ones' can be found."""
        rows = len(self._lengths)
        self.prefix.clear(version)
        self._saved = np.zeros(rows, np.int64)
        """[rows] tokens at the last end of a grain that each row has come past and not written back; 0: none."""
        self._reserved: list[Pages | None] = [None] * rows
        """The states of each row at that place."""
        self._turns: dict[int, list[tuple[int, Pages]]] = {}
        """Row → earlier turns' tokens and states, kept like these but given up first."""

    # On a hit.

    def fetch(self, row: int, ids: IntArray) -> int:
        """Make a row hold the longest known beginning of `ids`, which may be nothing; how many tokens that is."""
        hit = self.prefix.match(ids)
        tokens = hit.tokens if hit else 0
        self._lengths[row] = tokens
        if hit is None:
            for parts in self._states.values():
                for part in parts:
                    part[row] = 0
            return 0
        found_TX = self._blocks[list(hit.blocks)].reshape(-1, self._blocks.shape[2])[:tokens]
        column = 0
        for entries, late in zip(self._entries, self._late):
            width = entries.shape[2]
            entries[row, : tokens - late] = found_TX[late:, column : column + width]
            column += width
        for group, page in zip(self._groups, hit.checkpoint):
            for n, part, place in group:
                self._states[n][part][row] = self._memory[page, place]
        self.prefix.release(hit)
        return tokens

    # As rows go on.

    def cut(self, rows: Rows, counts: NDArray[np.int64]) -> Cut:
        """Where the states of rows that go on by `counts` tokens are to be kept: at the last end of a grain that they pass."""
        if not self._groups or not self.prefix.pages:
            return Cut(after=np.zeros_like(counts))
        last = self._lengths[rows] + counts
        last -= last % self.prefix.grain
        return Cut(after=np.maximum(last - self._lengths[rows], 0))

    def save_cut(self, rows: Rows, counts: NDArray[np.int64], cut: Cut) -> None:
        """Keep what a cut kept of rows that have gone on by `counts` tokens."""
        there = cut.after > 0
        self._save(rows[there], (self._lengths[rows] - counts + cut.after)[there], flat(cut.states), None)
        self._save_lengths(rows)

    def save(self, rows: Rows) -> None:
        """Keep the states of those rows that stand at the end of a grain."""
        if self._groups:
            ends = rows[self._lengths[rows] % self.prefix.grain == 0]
            self._save(ends, self._lengths[ends], self._states, ends)
        self._save_lengths(rows)

    def end_turn(self, row: int) -> None:
        """The row goes on with a new turn, whose states do not supersede those of the last."""
        reserved = self._reserved[row]
        if reserved:
            self._turns.setdefault(row, []).append((int(self._saved[row]), reserved))
            self._reserved[row] = None

    def _save_lengths(self, rows: Rows) -> None:
        """Without KDA every end of a grain will do."""
        if not self._groups:
            self._saved[rows] = self._lengths[rows] - self._lengths[rows] % self.prefix.grain

    def _save(self, rows: Rows, tokens: NDArray[np.int64], states: States, index: Rows | None) -> None:
        """Keep states of rows at so many tokens, which supersede what was kept of the same turn."""
        held = [n for n, row in enumerate(rows.tolist()) if self._reserved[row] or self._reserve(row)]
        if not held:
            return
        pages_BG = np.array([self._reserved[row] for row in rows[held].tolist()])
        source = np.array(held) if index is None else index[held]
        for group, pages_B in zip(self._groups, pages_BG.T):
            for n, part, place in group:
                self._memory[pages_B, place] = states[n][part][source]
        self._saved[rows[held]] = tokens[held]

    def _reserve(self, row: int) -> bool:
        reserved = self.prefix.reserve()
        if reserved is None and self._turns:
            for _, pages in (turn for turns in self._turns.values() for turn in turns):
                self.prefix.give_back(pages)
            self._turns = {}
            reserved = self.prefix.reserve()
        self._reserved[row] = reserved
        return reserved is not None

    # When they are over.

    def pending(self, rows: NDArray[np.bool_]) -> Rows:
        """Those of the first rows, marked in [n], that have something to write back."""
        return np.flatnonzero(rows & (self._saved[: len(rows)] > 0))

    def forget(self, row: int) -> None:
        """Nobody will ask for what the row holds."""
        for _, pages in self._turns.pop(row, []):
            self.prefix.give_back(pages)
        if (reserved := self._reserved[row]) is not None:
            self.prefix.give_back(reserved)
        self._saved[row], self._reserved[row] = 0, None

    def write_back(self, rows: Rows, tokens: Sequence[IntArray | NDArray[np.int64]]) -> None:
        """Let the pool keep what these rows held at the ends of their turns; `tokens[i]` are row `rows[i]`'s, or more."""
        for row, ids in zip(rows.tolist(), tokens):
            turns = self._turns.pop(row, [])
            reserved, end = self._reserved[row], int(self._saved[row])
            self._saved[row], self._reserved[row] = 0, None
            if not self._groups:
                turns = [(end, ())] if end else []
            elif reserved is not None:
                turns.append((end, reserved))
            for end, pages in turns:
                for write in self.prefix.register(ids[:end], pages):
                    self._copy(row, write.page, write.start, write.end)
        self.prefix.land()

    def swap(self, a: Rows, b: Rows) -> None:
        """Rows `a[i]` and `b[i]` change places."""
        both, crossed = np.concatenate([a, b]), np.concatenate([b, a])
        self._saved[crossed] = self._saved[both]
        moved = {to: self._turns.pop(row) for row, to in zip(both.tolist(), crossed.tolist()) if row in self._turns}
        self._turns |= moved
        for i, j in zip(a.tolist(), b.tolist()):
            self._reserved[i], self._reserved[j] = self._reserved[j], self._reserved[i]

    def _copy(self, row: int, page: int, start: int, end: int) -> None:
        """Entries of the row's tokens `start` to `end`, to their places in the page's block."""
        place, column = start % self.prefix.block - start, 0
        for entries, late in zip(self._entries, self._late):
            first, width = max(start, late), entries.shape[2]
            self._blocks[page, place + first : place + end, column : column + width] = entries[row, first - late : end - late]
            column += width

    def _places(self, layers: Sequence[int]) -> list[tuple[int, int, slice]]:
        """(layer, part of its state, where in a page it lies) of a group."""
        parts = [(n, index, part.shape[1]) for n in layers for index, part in enumerate(self._states[n])]
        ends = accumulate(width for _, _, width in parts)
        return [(n, index, slice(end - width, end)) for (n, index, width), end in zip(parts, ends)]


def flat(states: Mapping[int, tuple[Tensor, ...]]) -> dict[int, list[NDArray[np.float32]]]:
    """Layer → [rows, numbers] views of its state's parts."""
    return {n: [part.flatten(1).numpy() for part in parts] for n, parts in states.items()}

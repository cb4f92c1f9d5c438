"""KDA-aware prefix cache: which pages hold what a sequence begins with (spec 07).

Tokens are hashed in grains, each hash covering all tokens before it and the policy version. Attention entries lie in blocks of
several grains, one page each; the last block of a sequence may be part full, and every complete grain of it can be found. A KDA
checkpoint is one page in each KDA group and exists at few of the grains' ends. A hit is the longest such end where all blocks
match and every group has a checkpoint; a model without KDA needs the blocks alone.

What a step registers can be found after `land`, when it has been copied. What can be found is never written again: a sequence
that goes on where a block's grains end goes on in that block; one that leaves them earlier gets a page of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ninefold.core.types import IntArray
from ninefold.engine.policy.pool import PagePool

Ids = IntArray | NDArray[np.int64]
Pages = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """What a sequence may begin with; pinned until `release`."""

    tokens: int
    blocks: Pages
    """Pages of the entries, in order; the last may hold more than is needed."""
    checkpoint: Pages
    """The page in each KDA group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Entries to be copied: those of tokens `start` to `end` of the sequence, to their places in the page's block."""

    page: int
    start: int
    end: int


@dataclass(slots=True, kw_only=True, eq=False)
class _Block:
    page: int
    keys: list[bytes]
    """Hash at the end of each grain that it holds."""
    landed: int = 0
    """Grains that can be found."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Checkpoint:
    key: bytes
    pages: Pages
    landed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A sequence's share of one block."""

    keys: Sequence[bytes]
    block: _Block | None
    """The block that holds the first `held` of them and, if these are not all, ends there; None asks for a page."""
    held: int


@dataclass(slots=True)
class _Step:
    """What was registered since the last `land`."""

    blocks: list[_Block] = field(default_factory=list[_Block])
    checkpoints: list[_Checkpoint] = field(default_factory=list[_Checkpoint])
    pins: list[int] = field(default_factory=list[int])


class PrefixCache:
    """Blocks and checkpoints by hash, over one pool of pages."""

    def __init__(self, *, pages: int, grain: int, block: int, groups: int, version: int = 0) -> None:
        """`grain` tokens to a hash, `block` to a page (a multiple of it), KDA layers in `groups`."""
        assert block % grain == 0, f"blocks of {block} tokens do not hold whole grains of {grain}"
        self.pages, self.grain, self.block, self.groups = pages, grain, block, groups
        self._per = block // grain
        self.clear(version)

    def clear(self, version: int) -> None:
        """Forget everything, pins too; from now on hashes are of this policy version."""
        self.pool = PagePool(self.pages, self._evict)
        self._root = hashlib.blake2b(str(version).encode(), digest_size=16).digest()
        self._blocks: dict[bytes, _Block] = {}
        self._checkpoints: dict[bytes, _Checkpoint] = {}
        self._owner: dict[int, _Block | _Checkpoint] = {}
        self._step = _Step()

    # Looking up.

    def match(self, ids: Ids) -> Hit | None:
        """The longest beginning of `ids` that can be had, pinned in all groups; None where there is none."""
        keys, per = self._chain(ids), self._per
        whole: list[_Block] = []
        while len(keys) >= (len(whole) + 1) * per and (block := self._landed(keys, (len(whole) + 1) * per)):
            whole.append(block)
        for end in range(min(len(keys), (len(whole) + 1) * per), 0, -1):
            before = (end - 1) // per
            last = whole[before] if before < len(whole) else self._landed(keys, end)
            checkpoint = self._checkpoints.get(keys[end - 1])
            if last is None or (self.groups and not (checkpoint and checkpoint.landed)):
                continue
            blocks = tuple(block.page for block in [*whole[:before], last])
            hit = Hit(tokens=end * self.grain, blocks=blocks, checkpoint=checkpoint.pages if checkpoint else ())
            self.pool.pin(hit.blocks + hit.checkpoint)
            return hit
        return None

    def release(self, hit: Hit) -> None:
        """What was hit has been copied."""
        # The end of a sequence is of no use without its beginning, so it is the first to go.
        self.pool.unpin((*hit.checkpoint, *reversed(hit.blocks)))

    def _landed(self, keys: Sequence[bytes], end: int) -> _Block | None:
        """The block that ends with, or holds, the grain before `end`."""
        block = self._blocks.get(keys[end - 1])
        return block if block is not None and (end - 1) % self._per < block.landed else None

    # Registering.

    def reserve(self) -> Pages | None:
        """Pages for one KDA checkpoint, pinned, or None where too many are. Later states supersede earlier ones in them until
        they are registered or given back."""
        return self.pool.allocate(self.groups)

    def give_back(self, reserved: Pages) -> None:
        """Reserved pages whose state nobody needs."""
        self.pool.unpin(reserved)

    def register(self, ids: Ids, reserved: Pages) -> list[Write]:
        """Keep a sequence of whole grains, and the checkpoint of its end; the entries that must be copied before `land`.

        The reserved pages are the cache's from now on. Nothing is kept where the pool cannot hold all of the sequence.
        """
        assert len(ids) % self.grain == 0 < len(ids), f"{len(ids)} tokens are not whole grains"
        keys = self._chain(ids)
        parts = [self._part(keys[first : first + self._per]) for first in range(0, len(keys), self._per)]
        present = [part.block.page for part in reversed(parts) if part.block]
        self.pool.pin(present)
        fresh = self.pool.allocate(sum(part.block is None for part in parts))
        if fresh is None:
            self.pool.unpin([*present, *reserved])
            return []
        self._step.pins += [*reserved, *reversed(fresh), *present]
        if self.groups:
            self._add_checkpoint(keys[-1], reserved)
        spare = iter(fresh)
        writes = [self._fill(part, n * self._per, spare) for n, part in enumerate(parts)]
        return [write for write in writes if write.start < write.end]

    def land(self) -> None:
        """All copies of this step have been made: what it registered can be found."""
        for block in self._step.blocks:
            block.landed = len(block.keys)
        for checkpoint in self._step.checkpoints:
            checkpoint.landed = True
        self.pool.unpin(self._step.pins)
        self._step = _Step()

    @property
    def unlanded(self) -> tuple[int, ...]:
        """Pages pinned until `land`, as often as they are."""
        return tuple(self._step.pins)

    def _part(self, keys: Sequence[bytes]) -> _Part:
        block = self._blocks.get(keys[-1])
        if block is not None:
            return _Part(keys=keys, block=block, held=len(keys))
        for held in range(len(keys) - 1, 0, -1):
            block = self._blocks.get(keys[held - 1])
            if block is not None and len(block.keys) == held:
                return _Part(keys=keys, block=block, held=held)
        return _Part(keys=keys, block=None, held=0)

    def _fill(self, part: _Part, first: int, spare: Iterator[int]) -> Write:
        """Put the part's missing grains, the first of which is number `first + part.held`, into its block or a new one."""
        block = part.block
        if block is None:
            block = _Block(page=next(spare), keys=[])
            self._owner[block.page] = block
            self.pool.keep([block.page])
        missing = part.keys[part.held :]
        for key in missing:
            self._blocks.setdefault(key, block)
        block.keys += missing
        self._step.blocks.append(block)
        start, end = first + part.held, first + len(part.keys)
        return Write(page=block.page, start=start * self.grain, end=end * self.grain)

    def _add_checkpoint(self, key: bytes, pages: Pages) -> None:
        if there := self._checkpoints.get(key):
            self.pool.pin(there.pages)
            self._step.pins += there.pages
            return
        checkpoint = self._checkpoints[key] = _Checkpoint(key=key, pages=pages)
        self._owner |= dict.fromkeys(pages, checkpoint)
        self.pool.keep(pages)
        self._step.checkpoints.append(checkpoint)

    # Making room.

    def _evict(self, page: int) -> None:
        owner = self._owner[page]
        if isinstance(owner, _Block):
            gone: Pages = (owner.page,)
            for key in owner.keys:
                if self._blocks.get(key) is owner:
                    del self._blocks[key]
        else:
            # A checkpoint lacking one group's page restores nothing: its siblings go with it.
            gone = owner.pages
            del self._checkpoints[owner.key]
        for each in gone:
            del self._owner[each]
        self.pool.give_up(gone)

    def _chain(self, ids: Ids) -> list[bytes]:
        """The hash at the end of each whole grain."""
        data, width = np.ascontiguousarray(ids, np.int32).tobytes(), 4 * self.grain
        keys, key = list[bytes](), self._root
        for start in range(0, len(ids) * 4 - width + 1, width):
            key = hashlib.blake2b(key + data[start : start + width], digest_size=16).digest()
            keys.append(key)
        return keys

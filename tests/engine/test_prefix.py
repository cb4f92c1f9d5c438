"""The prefix cache over random interleavings against a memory of what every page holds; and the cases that spec 07 names."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ninefold.engine.policy.prefix import Hit, Pages, PrefixCache, Write

GRAIN, BLOCK = 2, 6
TOKENS = st.lists(st.integers(0, 1), min_size=1, max_size=7)


@dataclass(eq=False)
class Sequence:
    """Someone who computes: tokens so far, and the checkpoint that he holds."""

    ids: list[int] = field(default_factory=list)
    reserved: Pages | None = None
    saved: int = 0


class Interleavings(RuleBasedStateMachine):
    """A page's memory says, place by place, after which tokens an entry or a state was computed."""

    groups = 2

    def __init__(self) -> None:
        super().__init__()
        self.cache = PrefixCache(pages=14, grain=GRAIN, block=BLOCK, groups=self.groups)
        self.version = 0
        self.memory: dict[tuple[int, int], object] = {}
        self.sequences = [Sequence()]
        self.hits: list[tuple[Hit, tuple[int, ...]]] = []
        self.step: list[tuple[Write, tuple[int, ...]]] = []

    def pick(self, n: int) -> Sequence:
        return self.sequences[n % len(self.sequences)]

    def states(self, ids: tuple[int, ...]) -> list[object]:
        return [("state", group, self.version, ids) for group in range(self.groups)]

    @rule(n=st.integers(0, 9), new=TOKENS)
    def append(self, n: int, new: list[int]) -> None:
        self.pick(n).ids += new

    @rule(n=st.integers(0, 9), kept=st.integers(0, 12))
    def branch(self, n: int, kept: int) -> None:
        if len(self.sequences) < 6:
            self.sequences.append(Sequence(ids=self.pick(n).ids[:kept]))

    @rule(n=st.integers(0, 9))
    def save(self, n: int) -> None:
        """The state at the last end of a grain; it supersedes the one held before."""
        sequence = self.pick(n)
        end = len(sequence.ids) // GRAIN * GRAIN
        if end and sequence.reserved is None:
            sequence.reserved = self.cache.reserve()
        if end and sequence.reserved is not None:
            sequence.saved = end
            for page, state in zip(sequence.reserved, self.states(tuple(sequence.ids[:end]))):
                self.memory[page, 0] = state

    @rule(n=st.integers(0, 9))
    def finish(self, n: int) -> None:
        sequence = self.pick(n)
        if sequence.reserved is not None:
            ids = tuple(sequence.ids[: sequence.saved])
            writes = self.cache.register(np.array(ids), sequence.reserved)
            self.step += [(write, ids) for write in writes]
            sequence.reserved = None

    @rule(n=st.integers(0, 9))
    def abandon(self, n: int) -> None:
        sequence = self.pick(n)
        if sequence.reserved is not None:
            self.cache.give_back(sequence.reserved)
            sequence.reserved = None

    @rule()
    def land(self) -> None:
        for write, ids in self.step:
            for place in range(write.start, write.end):
                self.memory[write.page, place % BLOCK] = (self.version, ids[: place + 1])
        self.step = []
        self.cache.land()

    @rule(n=st.integers(0, 9), tail=TOKENS)
    def match(self, n: int, tail: list[int]) -> None:
        ids = tuple(self.pick(n).ids + tail)
        hit = self.cache.match(np.array(ids))
        if hit is not None:
            self.hits.append((hit, ids))

    @precondition(lambda self: self.hits)
    @rule(n=st.integers(0, 9))
    def copied(self, n: int) -> None:
        hit, _ = self.hits.pop(n % len(self.hits))
        self.cache.release(hit)

    @rule()
    def load_weights(self) -> None:
        self.version += 1
        self.cache.clear(self.version)
        self.hits, self.step = [], []
        for sequence in self.sequences:
            sequence.reserved = None

    @invariant()
    def hits_hold_what_their_tokens_left(self) -> None:
        for hit, ids in self.hits:
            assert 0 < hit.tokens <= len(ids)
            assert hit.tokens % GRAIN == 0
            assert len(hit.blocks) == -(-hit.tokens // BLOCK)
            for place in range(hit.tokens):
                page = hit.blocks[place // BLOCK]
                assert self.memory[page, place % BLOCK] == (self.version, ids[: place + 1])
            assert [self.memory[page, 0] for page in hit.checkpoint] == self.states(ids[: hit.tokens])

    @invariant()
    def every_page_is_accounted_for(self) -> None:
        pool = self.cache.pool
        pins = Counter(page for hit, _ in self.hits for page in hit.blocks + hit.checkpoint)
        pins.update(page for sequence in self.sequences for page in sequence.reserved or ())
        pins.update(self.cache.unlanded)
        assert pool.pins == [pins[page] for page in range(self.cache.pages)]
        assert pool.free + pool.idle + len(+pins) == self.cache.pages


class WithoutKDA(Interleavings):
    groups = 0


TestInterleavings = Interleavings.TestCase
TestWithoutKDA = WithoutKDA.TestCase
for case in (TestInterleavings, TestWithoutKDA):
    case.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def remember(cache: PrefixCache, ids: np.ndarray) -> None:
    reserved = cache.reserve()
    assert reserved is not None
    cache.register(ids[: len(ids) // cache.grain * cache.grain], reserved)
    cache.land()


def tokens(cache: PrefixCache, ids: np.ndarray) -> int:
    hit = cache.match(ids)
    if hit is None:
        return 0
    cache.release(hit)
    return hit.tokens


@pytest.fixture
def published() -> PrefixCache:
    return PrefixCache(pages=40, grain=512, block=6144, groups=3)


def test_2800_matching_tokens_in_a_block_of_6144_hit_at_2560(published: PrefixCache) -> None:
    first = np.arange(8000)
    remember(published, first[:2800])
    remember(published, first)
    other = np.concatenate([first[:2800], np.zeros(4000, np.int64)])
    assert tokens(published, other) == 2560
    assert tokens(published, first) == 7680
    assert tokens(published, first[:7000]) == 2560, "no checkpoint lies between"
    assert tokens(published, first[:2559]) == 0


def test_what_a_turn_left_stays_when_the_next_goes_on(published: PrefixCache) -> None:
    ids = np.arange(20_000)
    for turn in (1000, 6000, 13_000, 20_000):
        remember(published, ids[:turn])
    assert [tokens(published, ids[:turn]) for turn in (1000, 6000, 13_000, 20_000)] == [512, 5632, 12_800, 19_968]
    assert published.pool.idle == 4 * 3 + 4, "the blocks are one sequence's"


def test_a_part_full_block_is_copied_by_who_leaves_it(published: PrefixCache) -> None:
    stem = np.arange(3000)
    branches = [np.concatenate([stem, np.full(2000, n)]) for n in (1, 2)]
    remember(published, stem)
    for branch in branches:
        remember(published, branch)
    assert [tokens(published, ids) for ids in (*branches, stem)] == [4608, 4608, 2560]
    assert published.pool.idle == 3 * 3 + 2, "the first goes on in the block, the second has one of its own"


def test_nothing_is_found_before_its_copy_has_landed(published: PrefixCache) -> None:
    ids = np.arange(5000)
    reserved = published.reserve()
    assert reserved is not None
    writes = published.register(ids[:4608], reserved)
    assert [(write.start, write.end) for write in writes] == [(0, 4608)]
    assert tokens(published, ids) == 0
    published.land()
    assert tokens(published, ids) == 4608


def test_a_group_that_is_evicted_takes_its_siblings_along() -> None:
    cache = PrefixCache(pages=8, grain=4, block=8, groups=3)
    first, second = np.zeros(8, np.int64), np.ones(8, np.int64)
    remember(cache, first)
    remember(cache, second)
    assert cache.pool.free == 0
    page = cache.pool.allocate(1)
    assert page is not None
    assert cache.pool.free == 2, "one was asked for, three went"
    assert tokens(cache, first) == 0
    assert tokens(cache, second) == 8
    cache.pool.unpin(page)


def test_what_is_pinned_is_not_evicted() -> None:
    cache = PrefixCache(pages=4, grain=4, block=8, groups=3)
    ids = np.zeros(8, np.int64)
    remember(cache, ids)
    hit = cache.match(ids)
    assert hit is not None
    assert cache.reserve() is None
    cache.release(hit)
    assert cache.reserve() is not None
    assert tokens(cache, ids) == 0


def test_no_cache_survives_new_weights(published: PrefixCache) -> None:
    remember(published, np.arange(5000))
    published.clear(1)
    assert tokens(published, np.arange(5000)) == 0
    assert published.pool.free == published.pages


def test_a_sequence_beyond_the_pool_is_not_kept() -> None:
    cache = PrefixCache(pages=7, grain=4, block=8, groups=3)
    short, long = np.arange(8), np.arange(100, 140)
    remember(cache, short)
    remember(cache, long)
    assert tokens(cache, short) == 8
    assert tokens(cache, long) == 0
    assert cache.pool.free + cache.pool.idle == cache.pages

"""The prefix cache over random interleavings against a memory of what every page holds; and the cases that spec 07 names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, target
from hypothesis import strategies as st

from ninefold.engine.policy.prefix import Hit, Pages, PrefixCache, Write

GRAIN, BLOCK = 2, 6


@dataclass(eq=False)
class Sequence:
    """Someone who computes: tokens so far, and the checkpoint that he holds."""

    ids: list[int] = field(default_factory=list)
    reserved: Pages | None = None
    saved: int = 0


class Interleavings:
    """A page's memory says, place by place, after which tokens an entry or a state was computed."""

    def __init__(self, groups: int) -> None:
        self.groups = groups
        self.cache = PrefixCache(pages=6 + 4 * groups, grain=GRAIN, block=BLOCK, groups=groups)
        self.version = 0
        self.memory: dict[tuple[int, int], object] = {}
        self.sequences = [Sequence() for _ in range(3)]
        self.hits: list[tuple[Hit, tuple[int, ...]]] = []
        self.step: list[tuple[Write, tuple[int, ...]]] = []
        self.found = 0

    def do(self, action: str, n: int, kept: int, new: list[int]) -> None:
        sequence = self.sequences[n % len(self.sequences)]
        match action:
            case "go on":
                sequence.ids += new
                self.save(sequence)
            case "finish":
                self.finish(sequence)
            case "abandon" if sequence.reserved is not None:
                self.cache.give_back(sequence.reserved)
                sequence.reserved = None
            case "branch" if len(self.sequences) < 6:
                self.sequences.append(Sequence(ids=sequence.ids[:kept]))
            case "match":
                ids = (*sequence.ids[:kept], *new)
                hit = self.cache.match(np.array(ids))
                if hit is not None:
                    self.hits.append((hit, ids))
                    self.found += 1
            case "copied" if self.hits:
                self.cache.release(self.hits.pop(n % len(self.hits))[0])
            case "land":
                self.land()
            case "new weights" if n == kept == 0:
                self.version += 1
                self.cache.clear(self.version)
                self.hits, self.step = [], []
                for each in self.sequences:
                    each.reserved = None

    def save(self, sequence: Sequence) -> None:
        """The state at the last end of a grain; it supersedes the one held before."""
        end = len(sequence.ids) // GRAIN * GRAIN
        if end and sequence.reserved is None:
            sequence.reserved = self.cache.reserve()
        if end and sequence.reserved is not None:
            sequence.saved = end
            for page, state in zip(sequence.reserved, self.states(sequence.ids[:end])):
                self.memory[page, 0] = state

    def finish(self, sequence: Sequence) -> None:
        if sequence.reserved is not None:
            ids = tuple(sequence.ids[: sequence.saved])
            self.step += [(write, ids) for write in self.cache.register(np.array(ids), sequence.reserved)]
            sequence.reserved = None

    def land(self) -> None:
        for write, ids in self.step:
            for place in range(write.start, write.end):
                self.memory[write.page, place % BLOCK] = (self.version, ids[: place + 1])
        self.step = []
        self.cache.land()

    def states(self, ids: Iterable[int]) -> list[object]:
        return [("state", group, self.version, tuple(ids)) for group in range(self.groups)]

    def check_hits(self) -> None:
        """Every hit that is not released holds what its tokens left."""
        for hit, ids in self.hits:
            assert 0 < hit.tokens <= len(ids)
            assert hit.tokens % GRAIN == 0
            assert len(hit.blocks) == -(-hit.tokens // BLOCK)
            for place in range(hit.tokens):
                assert self.memory[hit.blocks[place // BLOCK], place % BLOCK] == (self.version, ids[: place + 1])
            assert [self.memory[page, 0] for page in hit.checkpoint] == self.states(ids[: hit.tokens])

    def check_pages(self) -> None:
        """Every page is free, idle or pinned, exactly as often as somebody holds it."""
        pool = self.cache.pool
        pins = Counter(page for hit, _ in self.hits for page in hit.blocks + hit.checkpoint)
        pins.update(page for sequence in self.sequences for page in sequence.reserved or ())
        pins.update(self.cache.unlanded)
        assert pool.pins == [pins[page] for page in range(self.cache.pages)]
        assert pool.free + pool.idle + len(pins) == self.cache.pages


ACTIONS = [*("go on", "finish", "land", "match", "copied") * 2, "branch", "abandon", "new weights"]
NEW = st.lists(st.integers(0, 1), min_size=1, max_size=7)
STEPS = st.tuples(st.sampled_from(ACTIONS), st.integers(0, 5), st.integers(0, 24), NEW)


@pytest.mark.parametrize("groups", [0, 2])
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.large_base_example, HealthCheck.data_too_large])
@given(steps=st.lists(STEPS, min_size=60, max_size=90))
def test_no_interleaving_loses_a_page_or_hits_other_tokens(groups: int, steps: list[tuple[str, int, int, list[int]]]) -> None:
    state = Interleavings(groups)
    for action in steps:
        state.do(*action)
        state.check_hits()
        state.check_pages()
    target(state.found)


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

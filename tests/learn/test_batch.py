"""Batches and shards: nothing lost, nothing twice, bounds kept."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninefold.core.errors import UserError
from ninefold.core.types import Sample
from ninefold.learn.batch import micro_batches, shards, shuffled_batches

LENGTHS = st.lists(st.integers(1, 30), min_size=1, max_size=40)


def _samples(lengths: list[int]) -> list[Sample]:
    return [Sample(ids=np.full(n, i, np.int32), mask=np.ones(n, bool), task=str(i)) for i, n in enumerate(lengths)]


@given(LENGTHS, st.integers(1, 60))
def test_micro_batches_hold_every_sample_once(lengths: list[int], bound: int):
    batches = micro_batches(_samples(lengths), bound)
    seen = Counter(int(i) for batch in batches for i in batch.ids[batch.layout.cu_seqlens[:-1]])
    assert seen == Counter(range(len(lengths)))
    for batch in batches:
        assert batch.layout.tokens <= bound or batch.layout.documents == 1
    order = [int(n) for batch in batches for n in batch.layout.lengths]
    assert order == sorted(lengths, reverse=True)


@given(LENGTHS, st.integers(1, 5))
def test_shards_are_balanced_and_complete(lengths: list[int], ranks: int):
    parts = shards(_samples(lengths), ranks)
    assert len(parts) == ranks
    assert Counter(s.task for part in parts for s in part) == Counter(str(i) for i in range(len(lengths)))
    loads = [sum(len(s.ids) for s in part) for part in parts]
    assert max(loads) - min(loads) <= max(lengths)


@given(LENGTHS, st.integers(1, 80), st.integers(1, 3), st.integers(0, 9))
def test_every_epoch_sees_each_sample_once(lengths: list[int], step_tokens: int, epochs: int, seed: int):
    steps = list(shuffled_batches(_samples(lengths), step_tokens, epochs=epochs, seed=seed))
    flat = [s.task for step in steps for s in step]
    n = len(lengths)
    for epoch in range(epochs):
        assert sorted(flat[epoch * n : (epoch + 1) * n], key=int) == [str(i) for i in range(n)]
    again = [s.task for step in shuffled_batches(_samples(lengths), step_tokens, epochs=epochs, seed=seed) for s in step]
    assert flat == again
    short = [step for step in steps if sum(len(s.ids) for s in step) < step_tokens]
    assert len(short) <= epochs


def test_epochs_differ_in_order():
    flat = [s.task for step in shuffled_batches(_samples([1] * 20), 5, epochs=2) for s in step]
    assert flat[:20] != flat[20:]


def test_a_bound_of_nothing_is_refused():
    with pytest.raises(UserError):
        micro_batches(_samples([1]), 0)
    with pytest.raises(UserError):
        next(shuffled_batches(_samples([1]), 0))

"""Layout of packed documents against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninefold.core.layout import DocLayout
from ninefold.core.types import Batch, Sample

LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=7)


@given(LENGTHS, st.integers(-10, 10))
def test_every_view_equals_a_loop_over_documents(lengths: list[int], offset: int) -> None:
    layout = DocLayout.of(lengths)
    places = [(d, t) for d, n in enumerate(lengths) for t in range(n)]
    assert (layout.tokens, layout.documents, layout.lengths.tolist()) == (sum(lengths), len(lengths), lengths)
    assert list(zip(layout.document.tolist(), layout.position.tolist())) == places
    assert layout.padded.tolist() == [d * max(lengths) + t for d, t in places]
    assert layout.has(offset).tolist() == [0 <= t + offset < lengths[d] for d, t in places]


@pytest.mark.parametrize("lengths", [[0], [3, 0, 2], [-1]])
def test_empty_documents_are_refused(lengths: list[int]) -> None:
    with pytest.raises(ValueError, match="at least one token"):
        DocLayout.of(lengths)


@given(LENGTHS, st.integers(0, 2**32 - 1))
def test_a_batch_is_its_samples_end_to_end(lengths: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    samples = [
        Sample(
            ids=rng.integers(0, 99, n).astype(np.int32),
            mask=rng.random(n) < 0.5,
            streams={"advantage": rng.random(n).astype(np.float32)},
        )
        for n in lengths
    ]
    batch = Batch.pack(samples)
    for d, sample in enumerate(samples):
        span = slice(*batch.layout.cu_seqlens[d : d + 2])
        assert batch.ids[span].tolist() == sample.ids.tolist()
        assert batch.mask[span].tolist() == sample.mask.tolist()
        assert batch.streams["advantage"][span].tolist() == sample.streams["advantage"].tolist()

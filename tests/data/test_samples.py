"""Samples on disk."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ninefold.core.types import Sample
from ninefold.data.samples import read_samples, write_samples


@given(lengths=st.lists(st.integers(1, 9), max_size=5), seed=st.integers(0, 99))
def test_what_was_written_is_read_back_be_it_nothing(lengths: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    samples = [
        Sample(ids=rng.integers(0, 600, n).astype(np.int32), mask=rng.random(n) < 0.5, task=f"task {i}")
        for i, n in enumerate(lengths)
    ]
    with TemporaryDirectory() as folder:
        write_samples(Path(folder, "samples.npz"), samples)
        back = read_samples(Path(folder, "samples.npz"))
    assert [(s.ids.tolist(), s.mask.tolist(), s.task) for s in back] == [
        (s.ids.tolist(), s.mask.tolist(), s.task) for s in samples
    ]
    assert all(s.ids.dtype == np.int32 and s.mask.dtype == np.bool_ for s in back)

"""Small models and samples for the trainer's tests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from ninefold.core.types import Sample
from ninefold.model.k3 import K3
from ninefold.model.presets import preset

VOCABULARY = 64


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def model() -> K3:
    return K3(preset("tiny", VOCABULARY), seed=7)


@pytest.fixture
def samples() -> Callable[..., list[Sample]]:
    """samples(lengths, seed=0): random documents with streams, about half of the tokens learned from."""

    def make(lengths: list[int], seed: int = 0) -> list[Sample]:
        rng = np.random.default_rng(seed)
        return [
            Sample(
                ids=rng.integers(0, VOCABULARY, n).astype(np.int32),
                mask=rng.random(n) < 0.5,
                streams={
                    "advantage": rng.normal(size=n).astype(np.float32),
                    "old_logprob": rng.normal(-4.2, 0.3, size=n).astype(np.float32),
                    "teacher_logprob": rng.normal(-4.0, 1.0, size=n).astype(np.float32),
                },
            )
            for n in lengths
        ]

    return make

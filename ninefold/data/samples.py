"""Samples from rows and conversations, and samples on disk."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ninefold.core.store import write_atomic
from ninefold.core.types import Row, Sample, Segment


def sample_of_row(row: Row, *, task: str = "") -> Sample:
    """A row as supervised data: the mask is the row's own."""
    return Sample(ids=row.ids, mask=row.loss_mask, task=task)


def sample_of_segments(segments: Sequence[Segment], *, task: str = "") -> Sample:
    """Rendered segments with explicit masks, as `chat` makes them of given conversations."""
    return sample_of_row(Row(segments=tuple(segments)), task=task)


def write_samples(path: Path, samples: Sequence[Sample]) -> None:
    """Ids, masks and task ids as one .npz file, perhaps of none; streams are not kept."""
    file = io.BytesIO()
    np.savez_compressed(
        file,
        ids=np.concatenate([np.zeros(0, np.int32), *(s.ids for s in samples)]),
        mask=np.concatenate([np.zeros(0, np.bool_), *(s.mask for s in samples)]),
        lengths=np.array([len(s.ids) for s in samples], np.int64),
        tasks=np.array([s.task for s in samples]),
    )
    write_atomic(path, file.getvalue())


def read_samples(path: Path) -> list[Sample]:
    """Inverse of `write_samples`."""
    with np.load(path) as arrays:
        cuts = np.cumsum(arrays["lengths"])[:-1]
        parts = zip(np.split(arrays["ids"], cuts), np.split(arrays["mask"], cuts), arrays["tasks"].tolist())
        return [Sample(ids=ids, mask=mask, task=task) for ids, mask, task in parts]

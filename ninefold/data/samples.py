"""Samples from rows and conversations, and samples on disk."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ninefold.core.picture import Picture
from ninefold.core.store import write_atomic
from ninefold.core.types import Row, Sample, Segment


def sample_of_row(row: Row, *, task: str = "", pictures: Iterable[Picture] = ()) -> Sample:
    """A row as supervised data: the mask is the row's own; `pictures` hold all that it shows."""
    return Sample(ids=row.ids, mask=row.loss_mask, task=task, pictures=shown(row, pictures))


def shown(row: Row, pictures: Iterable[Picture]) -> tuple[Picture, ...]:
    """A row's pictures in order, one for each of its `media_pad` ids."""
    known = {picture.hash: picture for picture in pictures} if row.images else {}
    return tuple(known[image] for image in row.images)


def sample_of_segments(segments: Sequence[Segment], *, task: str = "", pictures: Iterable[Picture] = ()) -> Sample:
    """Rendered segments with explicit masks, as `chat` makes them of given conversations."""
    return sample_of_row(Row(segments=tuple(segments)), task=task, pictures=pictures)


def write_samples(path: Path, samples: Sequence[Sample]) -> None:
    """Ids, masks, task ids and pictures as one .npz file, perhaps of none; streams are not kept."""
    file = io.BytesIO()
    pixels = [picture.pixels_HWC for sample in samples for picture in sample.pictures]
    np.savez_compressed(
        file,
        ids=np.concatenate([np.zeros(0, np.int32), *(s.ids for s in samples)]),
        mask=np.concatenate([np.zeros(0, np.bool_), *(s.mask for s in samples)]),
        lengths=np.array([len(s.ids) for s in samples], np.int64),
        tasks=np.array([s.task for s in samples]),
        pictures=np.array([len(s.pictures) for s in samples], np.int64),
        shapes=np.array([p.shape for p in pixels], np.int64).reshape(-1, 3),
        pixels=np.concatenate([np.zeros(0, np.uint8), *(p.ravel() for p in pixels)]),
    )
    write_atomic(path, file.getvalue())


def read_samples(path: Path) -> list[Sample]:
    """Inverse of `write_samples`."""
    with np.load(path) as arrays:
        cuts = np.cumsum(arrays["lengths"])[:-1]
        parts = zip(np.split(arrays["ids"], cuts), np.split(arrays["mask"], cuts), arrays["tasks"].tolist(), _pictures(arrays))
        return [Sample(ids=ids, mask=mask, task=task, pictures=shown) for ids, mask, task, shown in parts]


def _pictures(arrays: Mapping[str, NDArray[Any]]) -> Iterator[tuple[Picture, ...]]:
    """Each sample's pictures; a file of an older version holds none."""
    if "pictures" not in arrays:
        yield from repeat(())
        return
    shapes, flat = arrays["shapes"], arrays["pixels"]
    cuts = np.cumsum(shapes.prod(1))[:-1]
    pictures = (Picture.of(part.reshape(shape)) for part, shape in zip(np.split(flat, cuts), shapes))
    for count in arrays["pictures"].tolist():
        yield tuple(islice(pictures, count))

"""Between pictures and what a model computes with: tokens that a placeholder stands for, patches, ids of pictures seen.

Shapes: P patches of all pictures end to end, S patch side, M tokens of pictures, D hidden width, N ids.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ninefold.core.errors import UserError
from ninefold.core.picture import Picture
from ninefold.core.types import IntArray, Sample
from ninefold.model.vision import CHANNELS, Grid, VisionConfig

HALF = 127.5
"""Bytes are mapped to [−1, 1]; what fills a picture up to whole windows is 0, a grey."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a model makes of pictures before it computes anything."""

    config: VisionConfig
    placeholder: int
    """The id that stands for a picture: once in rows, as often as the picture has tokens in batches."""

    def grid(self, picture: Picture) -> Grid:
        """Frames, rows and columns of patches, filled up to whole windows on the right and below."""
        tall, wide = (self.config.patch_size * n for n in self.config.merge_kernel_size)
        rows, columns = (-(-picture.height // tall), -(-picture.width // wide))
        return 1, rows * self.config.merge_kernel_size[0], columns * self.config.merge_kernel_size[1]

    def tokens(self, picture: Picture) -> int:
        """Input tokens that the picture becomes."""
        return self.config.tokens(self.grid(picture))

    def patches(self, pictures: Sequence[Picture]) -> tuple[Tensor, list[Grid]]:
        """[P, C, S, S] in [−1, 1] row by row, and the grids: what `K3.pictures` takes."""
        grids = [self.grid(picture) for picture in pictures]
        parts = [self._patches(picture, grid) for picture, grid in zip(pictures, grids)]
        return torch.from_numpy(np.concatenate(parts)), grids

    def _patches(self, picture: Picture, grid: Grid) -> NDArray[np.float32]:
        side = self.config.patch_size
        _, rows, columns = grid
        filled = np.zeros((rows * side, columns * side, CHANNELS), np.float32)
        filled[: picture.height, : picture.width] = picture.pixels_HWC / np.float32(HALF) - 1
        cut = filled.reshape(rows, side, columns, side, CHANNELS).transpose(0, 2, 4, 1, 3)
        return cut.reshape(rows * columns, CHANNELS, side, side)

    def repeats(self, ids: IntArray, pictures: Sequence[Picture]) -> NDArray[np.int64]:
        """[N] how often each id stands in a batch: a placeholder as often as its picture has tokens, others once.

        Raises UserError where pictures and placeholders differ in number.
        """
        counts = np.ones(len(ids), np.int64)
        places = np.flatnonzero(ids == self.placeholder)
        if len(places) != len(pictures):
            raise UserError(f"{len(places)} placeholder ids for {len(pictures)} pictures")
        counts[places] = [self.tokens(picture) for picture in pictures]
        return counts

    def expanded(self, sample: Sample) -> Sample:
        """The sample as it stands in a batch: pictures take their room, are never targets, and streams are 0 there."""
        counts = self.repeats(sample.ids, sample.pictures)
        if not sample.pictures:
            return sample
        ids = np.repeat(sample.ids, counts)
        text = ids != self.placeholder
        streams = {name: np.repeat(stream, counts) * text for name, stream in sample.streams.items()}
        return replace(sample, ids=ids, mask=np.repeat(sample.mask, counts) & text, streams=streams)


class Gallery:
    """Pictures that a decoder was shown. Their tokens are ids of their own behind the vocabulary, never given twice, so that
    equal ids mean equal pictures wherever ids are compared: rows, shared prompts, prefix caches."""

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary
        self._next = vocabulary
        self._first: dict[str, int] = {}
        """Hash → the picture's first id, in the order of ids."""
        self._embedded: dict[int, Tensor] = {}
        """First id → [M, D]"""
        self.tokens = 0
        """Held of all pictures together."""

    def ids(self, picture: Picture, embed: Callable[[Picture], Tensor]) -> IntArray:
        """[M] the picture's ids; `embed` gives its input embeddings [M, D] where it is not held yet."""
        first = self._first.setdefault(picture.hash, self._next)
        if first == self._next:
            self._embedded[first] = embed(picture)
            self._next += len(self._embedded[first])
            self.tokens += len(self._embedded[first])
        return np.arange(first, first + len(self._embedded[first]), dtype=np.int32)

    def keep(self, used: Iterable[int]) -> None:
        """Take down all pictures but those that have one of their ids among `used`."""
        firsts = list(self._embedded)
        kept = {firsts[bisect_right(firsts, i) - 1] for i in used if i >= self.vocabulary}
        self._first = {name: first for name, first in self._first.items() if first in kept}
        self._embedded = {first: self._embedded[first] for first in self._first.values()}
        self.tokens = sum(map(len, self._embedded.values()))

    def place(self, x_ND: Tensor, ids_N: Tensor) -> None:
        """Write pictures' embeddings over the rows of `x_ND` where their ids stand."""
        places = (ids_N >= self.vocabulary).nonzero()[:, 0]
        firsts = list(self._embedded)
        for first in {firsts[bisect_right(firsts, i) - 1] for i in ids_N[places].tolist()}:
            embedded_MD = self._embedded[first]
            own = places[(ids_N[places] >= first) & (ids_N[places] < first + len(embedded_MD))]
            x_ND[own] = embedded_MD[ids_N[own] - first]

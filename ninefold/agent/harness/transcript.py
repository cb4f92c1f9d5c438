"""The token rows of one episode: all but the last are closed, the last one grows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ninefold.core.types import IntArray, Row, Segment, append


class Transcript:
    """Rows as they grow. Their ids are kept in one buffer besides, so that a request costs a view, not a copy."""

    def __init__(self, rows: Sequence[Row] = ()) -> None:
        self._rows = list(rows)
        self._ids = np.zeros(256, np.int32)
        self._tokens = 0
        if rows:
            self._extend(rows[-1].ids)

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(self._rows)

    @property
    def row(self) -> int:
        """Index of the row that grows."""
        return len(self._rows) - 1

    @property
    def tokens(self) -> int:
        """Length of the row that grows."""
        return self._tokens

    @property
    def ids(self) -> IntArray:
        """[tokens] of the row that grows; what is handed out never changes."""
        return self._ids[: self._tokens]

    @property
    def images(self) -> tuple[str, ...]:
        """Hashes of the pictures in the row that grows."""
        return self._rows[-1].images

    @property
    def message(self) -> tuple[Segment, ...]:
        """The pieces sampled so far of the message in progress: the sampled segments at the end."""
        segments = self._rows[-1].segments
        start = len(segments)
        while start and segments[start - 1].source == "sampled":
            start -= 1
        return segments[start:]

    def open(self, segments: Iterable[Segment]) -> None:
        """Begin a new row."""
        self._rows.append(Row())
        self._tokens = 0
        self._ids = np.zeros(256, np.int32)
        self.append(*segments)

    def append(self, *segments: Segment) -> None:
        self._rows[-1] = append(self._rows[-1], *segments)
        for segment in segments:
            self._extend(segment.ids)

    def _extend(self, ids: IntArray) -> None:
        end = self._tokens + len(ids)
        if end > len(self._ids):
            grown = np.zeros(2 * end, np.int32)
            grown[: self._tokens] = self.ids
            self._ids = grown
        self._ids[self._tokens : end] = ids
        self._tokens = end

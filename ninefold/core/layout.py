"""Where documents begin and end in a packed batch: one object for convolution, KDA, the MLA mask and the MTP shift."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class DocLayout:
    """D documents laid end to end over T tokens."""

    cu_seqlens: NDArray[np.int64]
    """[D + 1] first token of each document, then T."""

    @staticmethod
    def of(lengths: Sequence[int]) -> DocLayout:
        """Layout of documents with these lengths; each must be positive."""
        if any(n <= 0 for n in lengths):
            raise ValueError(f"a document must hold at least one token, got lengths {list(lengths)}")
        return DocLayout(cu_seqlens=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))

    @property
    def tokens(self) -> int:
        return int(self.cu_seqlens[-1])

    @property
    def documents(self) -> int:
        return len(self.cu_seqlens) - 1

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """[D]"""
        return np.diff(self.cu_seqlens)

    @cached_property
    def document(self) -> NDArray[np.int64]:
        """[T] index of each token's document."""
        return np.repeat(np.arange(self.documents), self.lengths)

    @cached_property
    def position(self) -> NDArray[np.int64]:
        """[T] place of each token within its document, from 0."""
        return np.arange(self.tokens) - np.repeat(self.cu_seqlens[:-1], self.lengths)

    @cached_property
    def padded(self) -> NDArray[np.int64]:
        """[T] flat index of each token in a [D, longest] rectangle."""
        return self.document * int(self.lengths.max()) + self.position

    def has(self, offset: int) -> NDArray[np.bool_]:
        """[T] True where token t + offset lies in t's own document (offset may be negative)."""
        place = self.position + offset
        return (place >= 0) & (place < self.lengths[self.document])

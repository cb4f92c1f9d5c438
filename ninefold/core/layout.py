"""Where documents begin and end in a packed batch: one object for convolution, KDA, the MLA mask and the MTP shift.

Documents with a common prefix, such as the attempts at one prompt, may share it: it lies in the batch once, as a document of
its own, the *trunk*, and each of the others, a *branch*, goes on where it ends.
"""

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
    trunks: NDArray[np.int64] | None = None
    """The last documents' trunks, which are all the documents before them; −1 for a document that is whole. None: all are."""

    @staticmethod
    def of(lengths: Sequence[int], trunks: Sequence[int] | None = None) -> DocLayout:
        """Layout of documents with these lengths; each must be positive.

        With `trunks`, one for each of the last documents, those go on from the document of that number, or from none where it
        is −1; all documents before them are trunks.
        """
        if any(n <= 0 for n in lengths):
            raise ValueError(f"a document must hold at least one token, got lengths {list(lengths)}")
        cu_seqlens = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        if trunks is None:
            return DocLayout(cu_seqlens=cu_seqlens)
        count = len(lengths) - len(trunks)
        if count < 1 or not all(-1 <= trunk < count for trunk in trunks):
            raise ValueError(f"{len(lengths)} documents, the last of which continue {list(trunks)}: trunks lie before them all")
        return DocLayout(cu_seqlens=cu_seqlens, trunks=np.asarray(trunks, np.int64))

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
    def place(self) -> NDArray[np.int64]:
        """[T] `position`, a branch's counted from the beginning of its trunk."""
        if self.trunks is None:
            return self.position
        return self.position + self.before[self.document]

    @cached_property
    def origin(self) -> NDArray[np.int64]:
        """[D] each document's trunk, −1 where it has none."""
        whole = np.full(self.documents, -1)
        if self.trunks is not None:
            whole[-len(self.trunks) :] = self.trunks
        return whole

    @cached_property
    def before(self) -> NDArray[np.int64]:
        """[D] tokens of each document's trunk; 0 where it has none."""
        return np.where(self.origin < 0, 0, self.lengths[self.origin])

    @cached_property
    def trunk(self) -> DocLayout:
        """Of the trunks alone, which are the first tokens."""
        assert self.trunks is not None
        return DocLayout(cu_seqlens=self.cu_seqlens[: self.documents - len(self.trunks) + 1])

    @cached_property
    def branch(self) -> DocLayout:
        """Of the documents behind the trunks alone, without what is before them."""
        assert self.trunks is not None
        return DocLayout(cu_seqlens=self.cu_seqlens[self.trunk.documents :] - self.trunk.tokens)

    @cached_property
    def whole(self) -> tuple[NDArray[np.int64], DocLayout]:
        """Tokens of the documents behind the trunks, each with its trunk's before its own; and their layout."""
        assert self.trunks is not None
        documents = np.split(np.arange(self.tokens), self.cu_seqlens[1:-1])
        parts: list[NDArray[np.int64]] = []
        for trunk, own in zip(self.trunks, documents[self.trunk.documents :]):
            parts += [documents[trunk], own] if trunk >= 0 else [own]
        lengths = self.before[self.trunk.documents :] + self.branch.lengths
        return np.concatenate(parts), DocLayout.of(lengths.tolist())

    @cached_property
    def padded(self) -> NDArray[np.int64]:
        """[T] flat index of each token in a [D, longest] rectangle."""
        return self.document * int(self.lengths.max()) + self.position

    def has(self, offset: int) -> NDArray[np.bool_]:
        """[T] True where token t + offset lies in t's own document (offset may be negative)."""
        place = self.position + offset
        return (place >= 0) & (place < self.lengths[self.document])

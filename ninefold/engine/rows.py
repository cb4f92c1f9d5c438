"""Which cache row holds what: sessions, their tokens, and who decodes now. Arrays over rows; no model in here.

The rows that decode are always a prefix, so that a step works on contiguous memory; idle sessions, and those that wait for
their prompts to be taken in, lie behind them.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from ninefold.core.protocols import Completion, Request
from ninefold.core.types import FinishReason, IntArray


class RowTable:
    """R rows of up to `capacity` tokens."""

    def __init__(self, rows: int, capacity: int) -> None:
        self.tokens = np.zeros((rows, capacity), np.int64)
        """[R, capacity] every token of the row, prompt and sampled."""
        self.logprobs = np.zeros((rows, capacity), np.float32)
        """[R, capacity] of the sampled ones."""
        self.known = np.zeros(rows, np.int64)
        """[R] tokens in the row; the cache may lag behind."""
        self.prompt = np.zeros(rows, np.int64)
        """[R] tokens that the running request came with."""
        self.limit = np.zeros(rows, np.int64)
        """[R] the request ends when this many tokens are known."""
        self.cached = np.zeros(rows, np.int64)
        """[R] tokens of the running request that nothing was computed for."""
        self.source = np.full(rows, -1)
        """[R] the cache row in which its prompt is being taken in; -1: none."""
        self.drafted = np.zeros(rows, np.int64)
        """[R] tokens proposed by a draft in the running request."""
        self.accepted = np.zeros(rows, np.int64)
        self.seed = np.zeros(rows, np.uint64)
        self.temperature = np.ones(rows)
        self.top_p = np.ones(rows)
        self.constrained = np.zeros(rows, np.bool_)
        """[R] the request carries a grammar."""
        self.active = np.zeros(rows, np.bool_)
        """[R] the session has a request."""
        self.decoding = np.zeros(rows, np.bool_)
        """[R] and it takes part in steps."""
        self._free = np.ones(rows, np.bool_)
        self.request: list[Request | None] = [None] * rows
        self._session: list[str | None] = [None] * rows
        self._row: OrderedDict[str, int] = OrderedDict()
        """Session → row, least recently used first."""

    @property
    def running(self) -> int:
        """Rows that decode."""
        return int(self.decoding.sum())

    def row_of(self, session: str) -> int | None:
        return self._row.get(session)

    def holds(self, row: int, ids: IntArray) -> bool:
        """Whether `ids` begin with what the row holds; that may be all of them, as the cache never holds a row's last token."""
        n = int(self.known[row])
        return n <= len(ids) and np.array_equal(self.tokens[row, :n], ids[:n])

    def take(self, session: str) -> int | None:
        """A row for a new session: a free one, or that of the session idle for longest; None where all are running."""
        row = int(self._free.argmax())
        if not self._free[row]:
            idle = next((s for s, r in self._row.items() if not self.active[r]), None)
            if idle is None:
                return None
            row = self._row.pop(idle)
        self._free[row] = False
        self._row[session] = row
        self._session[row] = session
        self.known[row] = 0
        return row

    def start(self, row: int, request: Request) -> None:
        """Begin a request in the row of its session."""
        n, capacity = len(request.ids), self.tokens.shape[1]
        self.tokens[row, :n] = request.ids
        self.known[row] = self.prompt[row] = n
        self.limit[row] = min(n + request.max_new, capacity)
        self.drafted[row] = self.accepted[row] = 0
        self.seed[row] = np.uint64(request.seed & (2**64 - 1))
        self.temperature[row], self.top_p[row] = request.temperature, request.top_p
        self.constrained[row] = request.allowed is not None
        self.request[row], self.active[row], self.decoding[row] = request, True, True
        self._row.move_to_end(request.session)

    def finish(self, row: int, reason: FinishReason, version: int) -> Completion:
        """End the row's request. The session stays."""
        request = self.request[row]
        assert request is not None, f"row {row} runs no request"
        self.request[row], self.active[row], self.decoding[row] = None, False, False
        new = slice(int(self.prompt[row]), int(self.known[row]))
        return Completion(
            request=request.id,
            ids=self.tokens[row, new].astype(np.int32),
            logprobs=self.logprobs[row, new].copy(),
            policy_version=version,
            finish=reason,
            cached=int(self.cached[row]),
            drafted=int(self.drafted[row]),
            accepted=int(self.accepted[row]),
        )

    def drop(self, session: str) -> None:
        """Forget an idle session, if it is there."""
        row = self._row.pop(session, None)
        if row is not None:
            assert not self.active[row], f"session {session} has a request in flight"
            self._session[row] = None
            self._free[row] = True

    def misplaced(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(other rows inside the prefix, running rows behind it), as many of each."""
        n = self.running
        return np.flatnonzero(~self.decoding[:n]), np.flatnonzero(self.decoding[n:]) + n

    def swap(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> None:
        """Rows `a[i]` and `b[i]` change places."""
        both, crossed = np.concatenate([a, b]), np.concatenate([b, a])
        width = int(self.known[both].max(initial=0))
        for array in (self.tokens[:, :width], self.logprobs[:, :width]):
            array[crossed] = array[both]
        for array in (self.known, self.prompt, self.limit, self.cached, self.source, self.drafted, self.accepted):
            array[crossed] = array[both]
        for array in (self.seed, self.temperature, self.top_p):
            array[crossed] = array[both]
        for array in (self.constrained, self.active, self.decoding, self._free):
            array[crossed] = array[both]
        for i, j in zip(a.tolist(), b.tolist()):
            for held in (self.request, self._session):
                held[i], held[j] = held[j], held[i]
            for row in (i, j):
                session = self._session[row]
                if session is not None:
                    self._row[session] = row

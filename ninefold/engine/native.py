"""Native engine for K3, Llama and Qwen2: continuous batching in lockstep over cached sessions (spec 07, spec 12).

A request that continues its session brings only its new tokens, which ride along in the lockstep batch while other rows
sample. Any other begins with what the prefix cache holds; the rest of its prompt is computed once for all that wait for it, in
chunks between decoding steps. Draws depend on a request's seed and its tokens' places alone; log-probabilities after a hit, as
in whatever company, are those of recomputation up to the order of floating-point sums (1e-5 in the tests).
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from ninefold.core.config import Config
from ninefold.core.errors import EngineError, UserError
from ninefold.core.layout import DocLayout
from ninefold.core.protocols import Completion, Request, WeightHandle
from ninefold.core.types import FinishReason
from ninefold.engine.pages import PagedRows
from ninefold.engine.rows import RowTable
from ninefold.engine.sampling import choose, logprob_of, uniforms
from ninefold.model.decode import Cache, Cut, Decoder, Rows
from ninefold.model.k3 import K3
from ninefold.model.llama import Llama, LlamaDecoder
from ninefold.model.weights import Weights

GALLERY = 100_000
"""Tokens of pictures beyond which those that no request waits for are forgotten."""


class NativeConfig(Config):
    """Sizes of the native engine."""

    rows: int = Field(default=512, ge=1)
    """Sessions held at once, running or idle; more requests wait."""
    capacity: int = Field(default=1024, ge=1)
    """Tokens of one session; a request that reaches it ends with `length`."""
    prompts: int = Field(default=32, ge=1)
    """Prompts taken in at once."""
    chunk: int = Field(default=8192, ge=1)
    """Tokens taken in between two decoding steps; longer prompts take several."""
    grain: int = Field(default=64, ge=1)
    """Tokens to a hash of the prefix cache."""
    pool_mb: float = Field(default=32, ge=0)
    """Megabytes of the prefix cache; 0 turns it off."""


class NativeEngine:
    """`core.protocols.Engine` over a model's weights; speculative decoding lives in `engine.speculative`."""

    def __init__(
        self, model: K3 | Llama, *, stop_ids: Sequence[int], config: NativeConfig | None = None, version: int = 0
    ) -> None:
        """`model` gives shape, quantisation and first weights, which are copied. A sampled stop id ends a request."""
        self.config = config or NativeConfig()
        self._stops = np.zeros(model.config.vocab_size, np.bool_)
        self._stops[list(stop_ids)] = True
        self._model = copy.deepcopy(model)
        self._queue: deque[Request] = deque()
        self._done: list[Completion] = []
        self._ids: set[str] = set()
        self._cancelled: deque[str] = deque()
        self._cache = self._new_cache(model)
        self._pages = PagedRows(self._cache, grain=self.config.grain, megabytes=self.config.pool_mb)
        self._adopt(Weights.of(model), version)

    def _new_cache(self, model: K3 | Llama) -> Cache:
        """Rows for sessions, then spare ones in which prompts are taken in."""
        return decoder_of(model).new_cache(self.config.rows + self.config.prompts, self.config.capacity)

    @property
    def policy_version(self) -> int:
        return self._version

    @property
    def in_flight(self) -> int:
        return len(self._ids)

    def submit(self, requests: Sequence[Request]) -> None:
        self._forget_pictures()
        seen = [self._seen(request) for request in requests]
        for request in requests:
            assert request.id not in self._ids, f"request {request.id} is in flight already"
            assert len(request.ids) > 0, f"request {request.id} has no ids"
            self._ids.add(request.id)
        self._queue.extend(seen)

    def _seen(self, request: Request) -> Request:
        """The request with its pictures' own ids, which stand for them from here on: in rows, keys and caches."""
        if not request.pictures:
            return request
        if not isinstance(self._decoder, Decoder):
            raise UserError("this model reads no pictures")
        return replace(request, ids=self._decoder.see(request.ids, request.pictures), pictures=())

    def _forget_pictures(self) -> None:
        """Drop the embeddings of pictures that nothing in flight shows, once there are many."""
        if isinstance(self._decoder, Decoder) and self._decoder.gallery.tokens > GALLERY:
            running = self._table.tokens[self._table.active].ravel()
            self._decoder.gallery.keep(np.unique(np.concatenate([running, *(r.ids for r in self._queue)])).tolist())

    def poll(self) -> list[Completion]:
        while self._ids and not self._done:
            self._drop_cancelled()
            self._admit()
            if self._table.running:
                self._step()
        return self._flush()

    def pause(self) -> list[Completion]:
        self._end_requests(set(self._ids), "paused")
        return self._flush()

    def cancel(self, requests: Iterable[str]) -> None:
        self._cancelled.extend(self._ids.intersection(requests))

    def release(self, session: str) -> None:
        if (row := self._table.row_of(session)) is not None:
            self._table.drop(session)
            self._pages.forget(row)

    def load(self, weights: WeightHandle, version: int) -> None:
        if self._ids:
            raise EngineError(f"cannot load weights with {len(self._ids)} requests in flight; pause first")
        if not isinstance(weights, Weights):
            raise EngineError(f"the native engine takes ninefold.model.weights.Weights, not {type(weights).__name__}")
        self._adopt(weights, version)

    def _adopt(self, weights: Weights, version: int) -> None:
        weights.load_into(self._model)
        self._decoder = decoder_of(self._model)
        self._version = version
        self._table = RowTable(self.config.rows, self.config.capacity)
        self._spare = list(range(self._cache.rows - 1, self.config.rows - 1, -1))
        """Cache rows that no prompt is being taken in."""
        self._prompts: dict[bytes, int] = {}
        """Prompt being taken in → its spare row."""
        self._filling: dict[int, NDArray[np.int64]] = {}
        """Cache row → the tokens that it is to take in, in the order of arrival."""
        self._pages.clear(version)
        self._cache.clear(np.arange(self._cache.rows))

    # Admission.

    def _admit(self) -> None:
        """Give rows to waiting requests, take in a chunk of what they lack, and bring the decoding rows to the front."""
        room = self.config.chunk
        while room:
            self._seat()
            taken = self._take_in(room)
            room -= taken
            if not taken:
                break
        others, behind = self._table.misplaced()
        if len(others):
            self._swap(others, behind)

    def _seat(self) -> None:
        """Give rows to waiting requests, in order, as long as there are any."""
        table = self._table
        while self._queue:
            request = self._queue[0]
            if len(request.ids) >= self.config.capacity or request.max_new < 1:
                self._reject(self._queue.popleft(), "length")
                continue
            row = table.row_of(request.session)
            if row is not None and not table.holds(row, request.ids):
                table.drop(request.session)
                row = None
            if row is not None:
                if len(request.ids) > table.known[row]:
                    self._pages.end_turn(row)
                table.start(row, self._queue.popleft())
                table.cached[row] = self._cache.lengths[row]
            elif not self._begin(request):
                break
        lag = np.where(table.decoding, table.known - 1 - self._cache.lengths[: self.config.rows], 0)
        if self._packs(int(lag.sum())):
            for row in np.flatnonzero(lag).tolist():
                self._filling[row] = table.tokens[row, : table.known[row] - 1].copy()
                table.decoding[row] = False

    def _packs(self, lag: int) -> bool:
        """Whether continuations are taken in at once rather than riding along.

        A packed token costs about as much as a row of a step, so it pays once they outnumber the running rows.
        """
        return lag > self._table.running

    def _begin(self, request: Request) -> bool:
        """Give the first waiting request, whose session is new, a row; False where it must wait for one."""
        table, prompt = self._table, request.ids[:-1]
        key = prompt.tobytes()
        if key not in self._prompts and not self._spare:
            return False
        self._write_back(self._pages.pending(~table.active))
        row = table.take(request.session)
        if row is None:
            return False
        table.start(row, self._queue.popleft())
        if key in self._prompts:
            table.cached[row] = len(prompt)
        else:
            spare = self._spare.pop()
            table.cached[row] = self._pages.fetch(spare, prompt)
            self._prompts[key], self._filling[spare] = spare, prompt.astype(np.int64)
        table.source[row], table.decoding[row] = self._prompts[key], False
        self._cache.lengths[row] = 0
        return True

    def _take_in(self, most: int) -> int:
        """Take in at most so many tokens, in equal shares, so that no row waits for a long one; how many there were."""
        self._settle()
        if not self._filling:
            return 0
        rows = np.array(list(self._filling))[:most]
        starts, share = self._cache.lengths[rows].tolist(), most // len(rows)
        spans = [self._filling[row][start : start + share] for row, start in zip(rows.tolist(), starts)]
        self._extend(rows, spans)
        self._settle()
        return sum(map(len, spans))

    def _settle(self) -> None:
        """Let the rows decode whose prompts are complete."""
        if not self._filling:
            return
        full = [row for row, tokens in self._filling.items() if self._cache.lengths[row] == len(tokens)]
        for row in full:
            if row < self.config.rows:
                del self._filling[row]
                self._table.decoding[row] = True
        done = np.array([row for row in full if row >= self.config.rows], np.int64)
        if not len(done):
            return
        table = self._table
        takers = np.flatnonzero(np.isin(table.source, done))
        self._cache.copy(table.source[takers], takers)
        table.source[takers], table.decoding[takers] = -1, True
        self._free_spare(done)

    def _free_spare(self, rows: Rows) -> None:
        self._pages.write_back(rows, [self._filling.pop(row) for row in rows.tolist()])
        self._prompts = {key: row for key, row in self._prompts.items() if row not in rows}
        self._spare += rows.tolist()

    def _write_back(self, rows: Rows) -> None:
        self._pages.write_back(rows, [self._table.tokens[row] for row in rows.tolist()])

    def _swap(self, a: Rows, b: Rows) -> None:
        """Rows `a[i]` and `b[i]` change places."""
        self._cache.swap(a, b)
        self._pages.swap(a, b)
        self._table.swap(a, b)
        if self._filling:
            place = dict(zip([*a.tolist(), *b.tolist()], [*b.tolist(), *a.tolist()]))
            self._filling = {place.get(row, row): tokens for row, tokens in self._filling.items()}

    def _extend(self, rows: Rows, spans: list[np.ndarray]) -> None:
        layout = DocLayout.of([len(span) for span in spans])
        cut = self._pages.cut(rows, layout.lengths)
        self._run(rows, torch.from_numpy(np.concatenate(spans)), layout, cut)
        self._pages.save_cut(rows, layout.lengths, cut)

    def _run(self, rows: Rows, ids_T: torch.Tensor, layout: DocLayout, cut: Cut) -> None:
        self._decoder.extend(ids_T, layout, self._cache, rows, cut)

    # Decoding.

    def _step(self) -> None:
        """One token into every running row; rows that have caught up sample their next."""
        table, count = self._table, self._table.running
        rows = np.arange(count)
        fed = table.tokens[rows, self._cache.lengths[:count]]
        hidden = self._decoder.step(torch.from_numpy(fed), self._cache)
        self._pages.save(rows)
        ready = np.flatnonzero(self._cache.lengths[:count] == table.known[:count])
        if not len(ready):
            return
        final_ND = hidden.final_TD if len(ready) == count else hidden.final_TD[torch.from_numpy(ready)]
        tokens, logprobs = self._sample(final_ND, ready)
        place = table.known[ready]
        table.tokens[ready, place], table.logprobs[ready, place] = tokens, logprobs
        table.known[ready] += 1
        self._end(ready)

    def _sample(self, final_ND: torch.Tensor, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """The rows' next tokens, and their log-probabilities at temperature 1 before any grammar."""
        table = self._table
        logits_NV = self._decoder.logits(final_ND)
        free_NV = logits_NV
        if table.constrained[rows].any():
            logits_NV = logits_NV.clone()
            self._constrain(logits_NV, rows, np.arange(len(rows)))
        temperature, top_p = torch.from_numpy(table.temperature[rows]), torch.from_numpy(table.top_p[rows])
        uniform = torch.from_numpy(uniforms(table.seed[rows], table.known[rows]))
        token_N = choose(logits_NV, temperature, top_p, uniform)
        return token_N.numpy(), logprob_of(free_NV, token_N).numpy()

    def _constrain(self, logits_NV: torch.Tensor, rows: Rows, places: Rows) -> None:
        """Rule out the tokens that a row's grammar does not let come next; `places[i]` holds the logits of `rows[i]`."""
        table = self._table
        for i in np.flatnonzero(table.constrained[rows]).tolist():
            row = int(rows[i])
            request = table.request[row]
            assert request is not None
            assert request.allowed is not None
            forbidden = np.ones(logits_NV.shape[1], np.bool_)
            new = table.tokens[row, table.prompt[row] : table.known[row]].astype(np.int32)
            forbidden[request.allowed.allowed(new)] = False
            logits_NV[int(places[i]), torch.from_numpy(forbidden)] = float("-inf")

    # Endings.

    def _end(self, rows: Rows) -> None:
        """Finish those of `rows` whose last token stops them or was their last allowed."""
        table = self._table
        stopped = self._stops[table.tokens[rows, table.known[rows] - 1]]
        ended = stopped | (table.known[rows] >= table.limit[rows])
        for row, stop in zip(rows[ended].tolist(), stopped[ended].tolist()):
            self._finish(row, "stop" if stop else "length")

    def _drop_cancelled(self) -> None:
        if cancelled := {self._cancelled.popleft() for _ in range(len(self._cancelled))}:
            self._end_requests(cancelled & self._ids, "cancelled")

    def _end_requests(self, requests: set[str], reason: FinishReason) -> None:
        """End these requests, running, filling or waiting, with what they have."""
        waiting = [request for request in self._queue if request.id in requests]
        self._queue = deque(request for request in self._queue if request.id not in requests)
        for row in np.flatnonzero(self._table.active).tolist():
            request = self._table.request[row]
            if request is not None and request.id in requests:
                self._finish(row, reason)
        for request in waiting:
            self._reject(request, reason)

    def _finish(self, row: int, reason: FinishReason) -> None:
        table, source = self._table, int(self._table.source[row])
        request = table.request[row]
        self._complete(table.finish(row, reason, self._version))
        self._filling.pop(row, None)
        if source >= 0:
            # Nothing was copied into the row yet, so it holds no session.
            assert request is not None
            table.source[row] = -1
            table.drop(request.session)
            if source not in table.source:
                self._free_spare(np.array([source]))

    def _reject(self, request: Request, reason: FinishReason) -> None:
        none = np.zeros(0, np.float32)
        ids = none.astype(np.int32)
        self._complete(Completion(request=request.id, ids=ids, logprobs=none, policy_version=self._version, finish=reason))

    def _complete(self, completion: Completion) -> None:
        self._ids.remove(completion.request)
        self._done.append(completion)

    def _flush(self) -> list[Completion]:
        done, self._done = self._done, []
        return done


def decoder_of(model: K3 | Llama) -> Decoder | LlamaDecoder:
    """A snapshot of the model's weights that decodes from caches."""
    return Decoder(model) if isinstance(model, K3) else LlamaDecoder(model)

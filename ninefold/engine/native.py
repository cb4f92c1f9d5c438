"""Native engine for K3, Llama and Qwen2: continuous batching in lockstep over cached sessions (spec 07, spec 12).

A prompt is taken in once for all requests that share it; a request that continues its session brings only its new tokens,
which ride along in the lockstep batch while other rows sample.
"""

from __future__ import annotations

import copy
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from ninefold.core.config import Config
from ninefold.core.errors import EngineError, UserError
from ninefold.core.layout import DocLayout
from ninefold.core.protocols import Completion, Request, WeightHandle
from ninefold.core.types import FinishReason
from ninefold.engine.rows import RowTable
from ninefold.engine.sampling import choose, logprob_of, uniforms
from ninefold.model.decode import Cache, Decoder, Rows
from ninefold.model.k3 import K3
from ninefold.model.llama import Llama, LlamaDecoder
from ninefold.model.weights import Weights

GALLERY = 100_000
"""Tokens of pictures beyond which those that no request waits for are forgotten."""


class NativeConfig(Config):
    """Sizes of the native engine."""

    rows: int = 512
    """Sessions held at once, running or idle; more requests wait."""
    capacity: int = 1024
    """Tokens of one session; a request that reaches it ends with `length`."""
    prompts: int = 32
    """Prompts kept ready for requests that share them."""


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
        self._cache = self._new_cache(model)
        self._adopt(Weights.of(model), version)

    def _new_cache(self, model: K3 | Llama) -> Cache:
        """Rows for sessions, then rows for shared prompts."""
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
            self._admit()
            if self._table.running:
                self._step()
        return self._flush()

    def pause(self) -> list[Completion]:
        for row in np.flatnonzero(self._table.active).tolist():
            self._finish(row, "paused")
        while self._queue:
            self._reject(self._queue.popleft(), "paused")
        return self._flush()

    def release(self, session: str) -> None:
        self._table.drop(session)

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
        self._prompts: OrderedDict[bytes, int] = OrderedDict()
        """Prompt → the spare cache row that has taken it in, least recently used first."""
        self._cache.clear(np.arange(self._cache.rows))

    # Admission.

    def _admit(self) -> None:
        """Give rows to waiting requests, take in what their rows lack, and bring the running rows to the front."""
        fresh: dict[bytes, list[int]] = {}
        """Prompt but its last token → the new rows that begin with it."""
        while self._queue:
            request = self._queue[0]
            if len(request.ids) >= self.config.capacity or request.max_new < 1:
                self._reject(self._queue.popleft(), "length")
                continue
            row = self._table.row_of(request.session)
            if row is not None and not self._table.holds(row, request.ids):
                self._table.drop(request.session)
                row = None
            if row is None:
                row = self._table.take(request.session)
                if row is None:
                    break
                fresh.setdefault(request.ids[:-1].tobytes(), []).append(row)
            self._table.start(row, self._queue.popleft())
        self._take_prompts(fresh)
        self._take_turns()
        idle, behind = self._table.misplaced()
        if len(idle):
            self._cache.swap(idle, behind)
            self._table.swap(idle, behind)

    def _take_prompts(self, fresh: dict[bytes, list[int]]) -> None:
        """Fill new rows from prompts, each of which is computed once."""
        if b"" in fresh:
            self._cache.clear(np.array(fresh.pop(b"")))
        waiting = list(fresh.items())
        for first in range(0, len(waiting), self.config.prompts):
            some = waiting[first : first + self.config.prompts]
            for key, _ in some:
                if key in self._prompts:
                    self._prompts.move_to_end(key)
            missing = [(key, rows) for key, rows in some if key not in self._prompts]
            if missing:
                spare = np.array([self._spare(key) for key, _ in missing])
                self._cache.clear(spare)
                self._extend(spare, [self._table.tokens[rows[0], : self._table.known[rows[0]] - 1] for _, rows in missing])
            source = np.array([self._prompts[key] for key, rows in some for _ in rows])
            self._cache.copy(source, np.array([row for _, rows in some for row in rows]))

    def _spare(self, key: bytes) -> int:
        used = len(self._prompts)
        row = self.config.rows + used if used < self.config.prompts else self._prompts.popitem(last=False)[1]
        self._prompts[key] = row
        return row

    def _take_turns(self) -> None:
        """Take in continuations at once where that is cheaper than letting them ride along.

        A packed token costs about as much as a row of a step, so it pays once they outnumber the running rows.
        """
        table, lengths = self._table, self._cache.lengths[: self.config.rows]
        lag = np.where(table.active, table.known - 1 - lengths, 0)
        if lag.sum() > table.running:
            rows = np.flatnonzero(lag)
            self._extend(rows, [table.tokens[r, lengths[r] : table.known[r] - 1] for r in rows])

    def _extend(self, rows: Rows, spans: list[np.ndarray]) -> None:
        layout = DocLayout.of([len(span) for span in spans])
        self._decoder.extend(torch.from_numpy(np.concatenate(spans)), layout, self._cache, rows)

    # Decoding.

    def _step(self) -> None:
        """One token into every running row; rows that have caught up sample their next."""
        table, count = self._table, self._table.running
        rows = np.arange(count)
        fed = table.tokens[rows, self._cache.lengths[:count]]
        hidden = self._decoder.step(torch.from_numpy(fed), self._cache)
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

    def _finish(self, row: int, reason: FinishReason) -> None:
        self._complete(self._table.finish(row, reason, self._version))

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

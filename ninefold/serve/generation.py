"""One engine behind many concurrent requests: a thread that submits and polls, and async streams of what it samples."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count

import numpy as np

from ninefold.core.errors import EngineError, NinefoldError, boundary
from ninefold.core.picture import Picture
from ninefold.core.protocols import Completion, Engine, Grammar, Request
from ninefold.core.types import FinishReason, FloatArray, IntArray

SLICE = 8
"""Tokens that a generation samples before they are handed out; whoever arrives meanwhile joins at the next slice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """What is to be generated."""

    ids: IntArray
    """[T] the prompt, generation prefix included."""
    max_new: int
    seed: int
    temperature: float = 1.0
    top_p: float = 1.0
    grammar: Grammar | None = None
    pictures: tuple[Picture, ...] = ()
    """One for each placeholder in the prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The next tokens of a generation."""

    ids: IntArray
    logprobs: FloatArray
    finish: FinishReason | None
    """None while it goes on."""
    cached: int = 0
    """Tokens of the prompt that the engine had already; the first slice says so."""


@dataclass(frozen=True, slots=True)
class Continued:
    """A grammar for the rest of a message."""

    grammar: Grammar
    before: IntArray

    def allowed(self, ids: IntArray) -> IntArray:
        """Sorted ids that may follow `before` and then `ids`."""
        return self.grammar.allowed(np.concatenate([self.before, ids]))


@dataclass(slots=True, kw_only=True, eq=False)
class _Job:
    """A generation on its way."""

    name: str
    asked: Generation
    arrived: asyncio.Queue[Slice | NinefoldError]
    loop: asyncio.AbstractEventLoop
    cancelled: bool = False
    new: list[IntArray] = field(default_factory=list[IntArray])
    """What was sampled, slice by slice."""

    @property
    def request_id(self) -> str:
        """Of the slice that is being sampled."""
        return f"{self.name}.{len(self.new)}"

    def request(self) -> Request:
        before = np.concatenate([np.zeros(0, np.int32), *self.new]).astype(np.int32)
        grammar = self.asked.grammar
        return Request(
            id=self.request_id,
            session=self.name,
            ids=np.concatenate([self.asked.ids, before]).astype(np.int32),
            max_new=min(SLICE, self.asked.max_new - len(before)),
            seed=self.asked.seed,
            temperature=self.asked.temperature,
            top_p=self.asked.top_p,
            allowed=grammar and Continued(grammar, before),
            pictures=self.asked.pictures,
        )

    def hand_out(self, item: Slice | NinefoldError) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.arrived.put_nowait, item)


class EngineLoop:
    """Owns the engine from `start` to `close`; all its work happens in one thread, in slices, so that requests share steps.

    Draws depend on a request's seed and positions alone, so slicing and company change nothing that is sampled.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._names = count()
        self._jobs: dict[str, _Job] = {}
        """Request in flight → its job."""
        self._inbox: list[_Job] = []
        self._open: set[_Job] = set()
        """Jobs not yet over."""
        self._closing = False
        self._failure: EngineError | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the thread; open streams raise EngineError."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    @property
    def failure(self) -> EngineError | None:
        """Why nothing can be generated any more; None while all is well."""
        return self._failure

    @property
    def in_flight(self) -> int:
        """Generations not yet finished."""
        return len(self._open)

    async def stream(self, asked: Generation) -> AsyncIterator[Slice]:
        """Slices as they are sampled. Leaving early, or being cancelled, ends the generation. Raises EngineError."""
        job = _Job(name=f"g{next(self._names)}", asked=asked, arrived=asyncio.Queue(), loop=asyncio.get_running_loop())
        with self._changed:
            if self._failure or self._closing:
                raise self._failure or EngineError("the engine is closed")
            self._open.add(job)
            self._inbox.append(job)
            self._changed.notify()
        try:
            while True:
                item = await job.arrived.get()
                if isinstance(item, NinefoldError):
                    raise item
                yield item
                if item.finish is not None:
                    return
        finally:
            job.cancelled = True
            self._engine.cancel([job.request_id])

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._inbox or self._jobs or self._closing)
                fresh, self._inbox = self._inbox, []
            if self._closing:
                self._fail(EngineError("the server is shutting down"), fresh)
                return
            with boundary(EngineError, "generation failed", catch=partial(self._break, fresh)):
                self._submit(fresh)
                for completion in self._engine.poll():
                    self._take(completion)
            if self._failure:
                return

    def _submit(self, jobs: list[_Job]) -> None:
        wanted = [job for job in jobs if not job.cancelled]
        self._open -= set(jobs) - set(wanted)
        for job in wanted:
            with boundary(EngineError, "this request cannot be generated", catch=partial(self._refuse, job)):
                self._engine.submit([job.request()])
                self._jobs[job.request_id] = job
        # Whoever left since he was asked about cancelled the slice before.
        self._engine.cancel([job.request_id for job in wanted if job.cancelled])

    def _take(self, completion: Completion) -> None:
        """Hand out what was sampled, and ask for more unless that was the end."""
        job = self._jobs.pop(completion.request)
        job.new.append(completion.ids)
        sampled = sum(len(ids) for ids in job.new)
        whole = len(completion.ids) == min(SLICE, job.asked.max_new - sampled + len(completion.ids))
        goes_on = completion.finish == "length" and whole and sampled < job.asked.max_new
        finish = None if goes_on else completion.finish
        cached = completion.cached if len(job.new) == 1 else 0
        job.hand_out(Slice(ids=completion.ids, logprobs=completion.logprobs, finish=finish, cached=cached))
        if goes_on:
            self._submit([job])
        else:
            # The session is not released: what it left may be how the next request of its conversation begins.
            self._open.discard(job)

    def _refuse(self, job: _Job, error: NinefoldError) -> None:
        """A request that the engine does not take, say for its picture, fails alone."""
        self._open.discard(job)
        job.hand_out(error)

    def _break(self, fresh: list[_Job], error: NinefoldError) -> None:
        self._failure = EngineError(str(error))
        self._fail(self._failure, fresh)

    def _fail(self, error: EngineError, fresh: list[_Job]) -> None:
        with self._changed:
            waiting, self._inbox = self._inbox, []
        for job in dict.fromkeys([*self._jobs.values(), *fresh, *waiting]):
            job.hand_out(error)
        self._jobs.clear()
        self._open.clear()

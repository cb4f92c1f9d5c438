"""Episodes in play at one engine: requests out, completions in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Timer

from ninefold.agent.harness.episode import Episode
from ninefold.core.protocols import Completion, Engine
from ninefold.rollout.deadline import Clock


class Lanes:
    """Keeps the engine fed with the episodes given, each with one request in flight at a time."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._since: dict[str, float] = {}
        """Slot → when its episode began to play."""
        self._waiting: list[Episode] = []
        self._flying: dict[str, tuple[Episode, str]] = {}

    @property
    def playing(self) -> int:
        """Episodes begun and neither finished nor paused."""
        return len(self._waiting) + len(self._flying)

    def begin(self, episodes: Iterable[Episode]) -> None:
        """Let episodes play from the next `advance` on; they may be done already."""
        for episode in episodes:
            self._since[episode.slot.id] = self._clock.now()
            self._waiting.append(episode)

    def advance(self) -> list[Episode]:
        """Play until at least one request is answered, or a deadline passes; the episodes that this finished, perhaps []."""
        finished = [episode for episode in self._waiting if episode.done]
        requests = []
        for episode in self._waiting:
            if not episode.done:
                request = episode.request()
                self._flying[request.id] = episode, request.session
                requests.append(request)
        self._waiting = []
        if requests:
            self._engine.submit(requests)
        if finished:
            return finished
        assert self._flying, "nothing is in play"
        with self._watchdog():
            completions = self._engine.poll()
        return self._take(completions)

    def pause(self) -> list[Episode]:
        """Stop everything; the episodes that finished on the way. The unfinished leave the lanes, ready to be saved."""
        finished = self._take(self._engine.pause())
        assert not self._flying, "an engine's pause returns every request in flight"
        self._waiting = []
        return finished

    def played(self, episode: Episode) -> float:
        """Seconds since it began."""
        return self._clock.now() - self._since[episode.slot.id]

    @contextmanager
    def _watchdog(self) -> Iterator[None]:
        """While the engine works, cancel the request that is the first to be late, when it is, so that the engine returns."""
        request, since = min(
            ((id, self._since[episode.slot.id]) for id, (episode, _) in self._flying.items()), key=lambda pair: pair[1]
        )
        due = self._clock.due(since)
        if due == float("inf"):
            yield
            return
        timer = Timer(max(0.0, due), self._engine.cancel, [[request]])
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _take(self, completions: Iterable[Completion]) -> list[Episode]:
        finished: list[Episode] = []
        for completion in completions:
            episode, session = self._flying.pop(completion.request)
            episode.accept(completion)
            took = self.played(episode)
            if completion.finish == "cancelled" and self._clock.over:
                episode.give_up(self._clock.cut(took))
            elif (not episode.done or completion.finish == "cancelled") and (late := self._clock.late(took)):
                episode.give_up(late)
            if episode.done or episode.session != session:
                self._engine.release(session)
            (finished if episode.done else self._waiting).append(episode)
        return finished

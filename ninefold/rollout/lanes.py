"""Episodes in play at one engine: requests out, completions in."""

from __future__ import annotations

from collections.abc import Iterable

from ninefold.agent.harness.episode import Episode
from ninefold.core.protocols import Completion, Engine


class Lanes:
    """Keeps the engine fed with the episodes given, each with one request in flight at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: list[Episode] = []
        self._flying: dict[str, tuple[Episode, str]] = {}

    @property
    def playing(self) -> int:
        """Episodes begun and neither finished nor paused."""
        return len(self._waiting) + len(self._flying)

    def begin(self, episodes: Iterable[Episode]) -> None:
        """Let episodes play from the next `advance` on; they may be done already."""
        self._waiting.extend(episodes)

    def advance(self) -> list[Episode]:
        """Play until at least one request is answered; the episodes that this finished, [] if there is none."""
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
        return self._take(self._engine.poll())

    def pause(self) -> list[Episode]:
        """Stop everything; the episodes that finished on the way. The unfinished leave the lanes, ready to be saved."""
        finished = self._take(self._engine.pause())
        assert not self._flying, "an engine's pause returns every request in flight"
        self._waiting = []
        return finished

    def _take(self, completions: Iterable[Completion]) -> list[Episode]:
        finished: list[Episode] = []
        for completion in completions:
            episode, session = self._flying.pop(completion.request)
            episode.accept(completion)
            if episode.done or episode.session != session:
                self._engine.release(session)
            (finished if episode.done else self._waiting).append(episode)
        return finished

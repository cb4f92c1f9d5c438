"""Who answers MCP clients: an episode for each conversation, or one world for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ninefold.core.protocols import Tool
from ninefold.core.types import Call, Task
from ninefold.serve.episodes import Episodes, ServedEpisode
from ninefold.serve.mcp import Outcome
from ninefold.serve.stored import Reply, StoredWorld

_TAKEN = Reply(text="handed in")


@dataclass(frozen=True, slots=True)
class EpisodeHost:
    """Each conversation plays an episode of its own, to its verdict."""

    served: Episodes

    def begin(self) -> str:
        return self.served.begin(self.served.task()).id

    def find(self, session: str) -> EpisodeOffer | None:
        episode = self.served.episodes.get(session)
        return None if episode is None else EpisodeOffer(self.served, episode)

    def leave(self, session: str) -> None:
        if session in self.served.episodes:
            self.served.leave(self.served.episodes[session])


@dataclass(frozen=True, slots=True)
class EpisodeOffer:
    """One episode. Its verdict is told as soon as there is one."""

    served: Episodes
    episode: ServedEpisode
    handing_in = "Hand in the answer; nothing can be done after it."

    @property
    def task(self) -> Task:
        return self.episode.task

    @property
    def tools(self) -> Sequence[Tool]:
        return self.episode.tools

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        return self._outcome(Reply.of(self.served.call(self.episode, Call(tool=tool, arguments=arguments))))

    def answer(self, response: str) -> Outcome:
        self.served.answer(self.episode, response)
        return self._outcome(_TAKEN)

    def _outcome(self, reply: Reply) -> Outcome:
        result = self.episode.result
        if result is None:
            return Outcome(reply=reply)
        verdict = {"status": result.status, "score": result.score, "detail": result.detail}
        return Outcome(reply=reply, meta={"done": True, **verdict})


@dataclass(frozen=True, slots=True)
class WorldHost:
    """All conversations are with one world and none has an id: a client need not notice that the server was restarted."""

    world: StoredWorld

    def begin(self) -> str:
        return ""

    def find(self, session: str) -> WorldOffer:
        return WorldOffer(self.world)

    def leave(self, session: str) -> None:
        """The world stays."""


@dataclass(frozen=True, slots=True)
class WorldOffer:
    """One world. What it came to is its owner's to ask."""

    world: StoredWorld
    handing_in = "Hand in the answer; a later one takes its place."

    @property
    def task(self) -> Task:
        return self.world.task

    @property
    def tools(self) -> Sequence[Tool]:
        return self.world.tools

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        reply = self.world.call(tool, arguments)
        return Outcome(reply=reply, meta={"done": True} if reply.done else {})

    def answer(self, response: str) -> Outcome:
        self.world.answer(response)
        return Outcome(reply=_TAKEN)

"""Episodes of a family for clients elsewhere: each plays one task, and its verifier judges what it came to."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TypeVar

from ninefold.agent.env.play import runtime_for
from ninefold.agent.env.verify import FreshVerifier
from ninefold.core.errors import UserError
from ninefold.core.protocols import Family, Observation, SandboxRuntime, Tool, World, offered
from ninefold.core.types import SPLITS, Call, Result, Split, Task

Value = TypeVar("Value")
OVER = "the episode is over"


@dataclass(slots=True, kw_only=True)
class ServedEpisode:
    """One client's attempt at one task."""

    id: str
    task: Task
    tools: tuple[Tool, ...]
    world: World
    turns: int = 0
    """Calls and answers so far."""
    result: Result | None = None
    """The verdict; None while it goes on."""


@dataclass(slots=True, kw_only=True)
class Episodes:
    """Opens, plays and judges them. All worlds live in one thread, for there are some that may be used in one thread only."""

    family: Family
    split: Split = "train"
    level: int = 0
    seed: int = 0
    """Of the task that an episode plays which asks for none."""
    most: int = 256
    """Episodes open at once."""
    episodes: dict[str, ServedEpisode] = field(default_factory=dict[str, ServedEpisode])
    """Those open or judged, by id, until they leave."""
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    _verify: FreshVerifier = field(default_factory=FreshVerifier)
    _stack: ExitStack = field(default_factory=ExitStack)
    _runtime: SandboxRuntime | None = None

    def start(self) -> None:
        """Make ready what the family needs. Raises SandboxUnavailable where this machine has it not."""
        self._runtime = self._within(lambda: self._stack.enter_context(runtime_for(self.family)))

    def close(self) -> None:
        """End all episodes."""
        for episode in [*self.episodes.values()]:
            self.leave(episode)
        self._within(self._stack.close)
        self._thread.shutdown()
        self._verify.close()

    def task(self, split: str | None = None, seed: int | None = None, level: int | None = None) -> Task:
        """The task of that split, seed and level; what is None is the server's own. Raises UserError."""
        split, level = split or self.split, self.level if level is None else level
        if split not in SPLITS:
            raise UserError(f"splits are {', '.join(SPLITS)}, got {split!r}")
        if not 0 <= level < self.family.levels:
            raise UserError(f"levels of {self.family.name} are 0 to {self.family.levels - 1}, got {level}")
        return self._within(lambda: self.family.generate(split, level, self.seed if seed is None else seed))

    def begin(self, task: Task, id: str = "") -> ServedEpisode:
        """Open the task's world; an episode of the same id leaves. Raises UserError where the house is full."""
        id = id or secrets.token_hex(16)
        if id in self.episodes:
            self.leave(self.episodes[id])
        if len(self.episodes) >= self.most:
            raise UserError(f"{self.most} episodes are open: close some")
        world = self._within(lambda: self.family.open(task, seed=task.seed, runtime=self._runtime))
        self.episodes[id] = ServedEpisode(id=id, task=task, tools=offered(self.family, task), world=world)
        return self.episodes[id]

    def call(self, episode: ServedEpisode, call: Call) -> Observation:
        """What the tool answers; the last call that the task's turns allow, and one that ends the world, end the episode."""
        if episode.result is not None:
            return Observation(text=OVER, done=True)
        seen = self._within(lambda: episode.world.call(call))
        episode.turns += 1
        if seen.done or episode.turns >= episode.task.limits.turns:
            self._judge(episode, None)
        return seen

    def answer(self, episode: ServedEpisode, response: str) -> Result:
        """Hand in the answer, which ends the episode; its verdict, or the one that it has already."""
        if episode.result is None:
            episode.turns += 1
            self._judge(episode, response)
        assert episode.result is not None
        return episode.result

    def leave(self, episode: ServedEpisode) -> None:
        """Forget it."""
        if self.episodes.pop(episode.id, None) is not None:
            self._within(episode.world.close)

    def _judge(self, episode: ServedEpisode, response: str | None) -> None:
        final = self._within(lambda: json.loads(json.dumps(episode.world.final(response))))
        episode.result = self._verify(episode.task, final)

    def _within(self, act: Callable[[], Value]) -> Value:
        return self._thread.submit(act).result()

"""Wall-clock bounds of what is played: of a verification, of an episode, and of a whole rollout (spec 11, tooling 2)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

from pydantic import Field

from ninefold.core.config import Config

Seconds = Annotated[float, Field(gt=0)]

PLAYING = 0.75
"""Share of a rollout's time after which nothing is begun or generated any more; the rest is for judging and closing. [ours]"""


class DeadlineConfig(Config):
    """Seconds on the clock. What they cut off is invalid, never failed; unless they pass they change no result."""

    verification: Seconds = 30.0
    """Of one verification."""
    episode: Seconds | None = None
    """Of one attempt between two pauses, waiting included. None: its limits of turns and tokens alone."""
    rollout: Seconds | None = None
    """Of everything played together, an iteration of RL or a stage's list of tasks, from opening the first world to closing
    the last: it ends by then with what is finished. None: it takes as long as it takes."""


class Clock:
    """The deadlines of one rollout, which begins now."""

    def __init__(self, config: DeadlineConfig, now: Callable[[], float] = time.monotonic) -> None:
        """`now` tells the time, in seconds since whenever."""
        self.now = now
        self._config = config
        self._end = None if config.rollout is None else now() + config.rollout
        self._playing = float("inf") if config.rollout is None else now() + PLAYING * config.rollout

    @property
    def over(self) -> bool:
        """Whether nothing may be begun or generated any more."""
        return self.now() >= self._playing

    @property
    def left(self) -> float | None:
        """Seconds for what remains to be done; None: as many as it takes."""
        return None if self._end is None else max(0.0, self._end - self.now())

    def due(self, since: float) -> float:
        """Seconds from now, until an episode that plays since that moment is to be ended; perhaps infinite, or negative."""
        end = float("inf") if self._config.episode is None else since + self._config.episode
        return min(end, self._playing) - self.now()

    def late(self, took: float) -> str:
        """Why an episode that has played for so many seconds is to be ended; empty where it is not."""
        limit = self._config.episode
        return "" if limit is None or took < limit else f"it took more than deadlines.episode = {limit:g} s"

    def cut(self, took: float | None = None) -> str:
        """Why an episode is not finished when playing is over, after so many seconds; None: it never began."""
        played = "not begun" if took is None else f"in its {took:.1f} s of play not finished"
        return f"{played} when deadlines.rollout = {self._config.rollout:g} s left time for judging only"

"""Which sample of which prompt runs in which slot: partial rollout's accounting, pure and without engines.

Report, partial rollout: each iteration keeps N prompts × K completions active and pauses as soon as ⌈λNK⌉ of them have
completed; paused ones resume first in the next iteration, new prompts fill the rest; a prompt is dispatched once all its K
are complete. Ours [spec 03]: slots are filled sample by sample, so that exactly N·K are active whatever was resumed, and
an iteration in which no prompt is complete at ⌈λNK⌉ rolls on until one is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Any

from pydantic import Field

from ninefold.core.config import Config
from ninefold.core.errors import UserError

Place = tuple[str, int]
"""(group, index of the sample within it)"""


class SlotsConfig(Config):
    """How much rolls at once, and when it pauses."""

    prompts: int = Field(default=32, ge=1)
    """N"""
    samples: int = Field(default=8, ge=1)
    """K, completions of a prompt."""
    lam: float = Field(default=1.0, gt=0, le=1)
    """λ: the share of the active that must complete before generation pauses; 1 is the synchronous algorithm."""

    @property
    def active(self) -> int:
        """N·K"""
        return self.prompts * self.samples

    @property
    def quota(self) -> int:
        """⌈λNK⌉, with λ taken as the decimal that it is written as."""
        return ceil(Fraction(str(self.lam)) * self.active)


@dataclass(slots=True, kw_only=True)
class OpenGroup:
    """A prompt that was begun and not yet dispatched."""

    started: int = 0
    """Samples 0 … started − 1 have begun."""
    finished: set[int] = field(default_factory=set[int])


class Slots:
    """The state of the N·K slots between and within iterations."""

    def __init__(self, config: SlotsConfig) -> None:
        self.config = config
        self.active: dict[Place, None] = {}
        """Running now, in the order of filling."""
        self.paused: list[Place] = []
        """To be resumed, in this order; empty while an iteration runs."""
        self.groups: dict[str, OpenGroup] = {}
        """Begun and not dispatched, in the order of opening."""
        self.completed = 0
        """In this iteration."""

    def fill(self, new_group: Callable[[], str]) -> tuple[list[Place], list[Place]]:
        """Begin an iteration: (resumed, started), together exactly N·K; `new_group` opens the next prompt."""
        assert not self.active, "an iteration is running"
        resumed, self.paused, self.completed = self.paused, [], 0
        started: list[Place] = []
        while len(resumed) + len(started) < self.config.active:
            started.append(self._next(new_group))
        self.active = dict.fromkeys([*resumed, *started])
        return resumed, started

    def finish(self, place: Place) -> None:
        """An active sample completed."""
        group, index = place
        del self.active[place]
        self.groups[group].finished.add(index)
        self.completed += 1

    @property
    def ready(self) -> list[str]:
        """Groups of which all K are in, in the order of opening."""
        return [name for name, group in self.groups.items() if len(group.finished) == self.config.samples]

    @property
    def due(self) -> bool:
        """Whether generation is to pause now."""
        return self.completed >= self.config.quota and bool(self.ready)

    def pause(self) -> list[Place]:
        """End the iteration: what is still active will be resumed first in the next."""
        self.paused, self.active = list(self.active), {}
        return self.paused

    def dispatch(self) -> list[str]:
        """Hand out the ready groups and forget them."""
        ready = self.ready
        for name in ready:
            del self.groups[name]
        return ready

    def record(self) -> dict[str, Any]:
        """The state between two iterations, as JSON."""
        assert not self.active, "save between iterations"
        groups = [[name, group.started, sorted(group.finished)] for name, group in self.groups.items()]
        return {"paused": [list(place) for place in self.paused], "groups": groups}

    @staticmethod
    def of(record: dict[str, Any], config: SlotsConfig) -> Slots:
        """The inverse of `record`. N and λ may have changed; K may not while groups are open, nor may N·K hold too few."""
        slots = Slots(config)
        slots.paused = [(group, index) for group, index in record["paused"]]
        slots.groups = {name: OpenGroup(started=started, finished=set(done)) for name, started, done in record["groups"]}
        if len(slots.paused) > config.active or any(group.started > config.samples for group in slots.groups.values()):
            raise UserError("rollout: N·K or K was made smaller than the work already begun; keep them or start afresh")
        return slots

    def _next(self, new_group: Callable[[], str]) -> Place:
        """The next sample to begin: of the oldest group with samples left, else the first of a new one."""
        for name, group in self.groups.items():
            if group.started < self.config.samples:
                group.started += 1
                return name, group.started - 1
        name = new_group()
        assert name not in self.groups
        self.groups[name] = OpenGroup(started=1)
        return name, 0

"""Partial rollout: iterations over N·K slots, with unfinished trajectories kept as data between them."""

from __future__ import annotations

from collections.abc import Callable

from ninefold.agent.harness.episode import Episode
from ninefold.core.errors import UserError
from ninefold.core.packed import as_bytes, pack, trajectory_of, trajectory_record, unpack
from ninefold.core.protocols import Engine
from ninefold.core.seeds import seed_of
from ninefold.core.types import Effort, Group, Slot, Task, Trajectory
from ninefold.rollout.lanes import Lanes
from ninefold.rollout.scene import Finished, Scene
from ninefold.rollout.slots import Place, Slots, SlotsConfig

Source = Callable[[int], tuple[Task, Effort]]
"""The i-th prompt of a stream: its task, with its budget, and the effort to be stated. Equal i, equal prompt."""


class RolloutConfig(SlotsConfig):
    """Partial rollout and its limit on old work, which is off by default (spec 03)."""

    max_resumes: int | None = None
    """A trajectory paused more often than this is ended, as invalid, with that reason. None: never."""


class Rollout:
    """Rolls out one stream of prompts with whatever weights the engine holds."""

    def __init__(
        self, *, engine: Engine, source: Source, scene: Scene, config: RolloutConfig, seed: int = 0, name: str = "g"
    ) -> None:
        """`name` begins the names of the groups, so that two rollouts of one run can be told apart."""
        self.cursor = 0
        """Prompts taken from the source so far."""
        self._engine = engine
        self._source = source
        self._scene = scene
        self._config = config
        self._seed = seed
        self._name = name
        self._slots = Slots(config)
        self._prompts: dict[str, int] = {}
        self._paused: dict[Place, Episode] = {}
        self._waiting: dict[Place, Trajectory] = {}

    @property
    def paused(self) -> int:
        """Trajectories that the next iteration resumes."""
        return len(self._paused)

    @property
    def waiting(self) -> int:
        """Finished trajectories whose group is not complete."""
        return len(self._waiting)

    def iterate(self) -> list[Group]:
        """One iteration: fill, roll until due, pause, grade; the groups that became complete, in the order of opening.

        A deadline of the rollout pauses it earlier; raises UserError where no group is complete by then.
        """
        clock = self._scene.clock()
        resumed, started = self._slots.fill(self._new_group)
        running = {place: self._resume(place) for place in resumed}
        running |= zip(started, self._scene.start(map(self._slot, started), clock))
        lanes = Lanes(self._engine, clock)
        lanes.begin(running.values())
        finished: list[Finished] = []
        while not self._slots.due and not clock.over:
            finished += self._close(lanes.advance())
        finished += self._close(lanes.pause())
        self._paused = {place: running[place] for place in self._slots.pause()}
        self._waiting |= {(t.group, int(t.id.rpartition("/")[2])): t for t in self._scene.grade(finished, within=clock.left)}
        groups = [self._group(name) for name in self._slots.dispatch()]
        if not groups:
            raise UserError(self._nothing_complete())
        return groups

    def _nothing_complete(self) -> str:
        places = ", ".join(
            f"{group}/{index} ({self._paused[group, index].slot.task.id})" for group, index in [*self._paused][:3]
        )
        return (
            f"no prompt had all its {self._config.samples} attempts when deadlines.rollout = "
            f"{self._scene.deadlines.rollout:g} s passed; still playing: {places}. Give it more time, or fewer prompts"
        )

    def save(self) -> bytes:
        """Everything between two iterations: cursor, open groups, paused episodes, waiting trajectories."""
        arrays = {f"paused/{n}": as_bytes(episode.save()) for n, episode in enumerate(self._paused.values())}
        for n, trajectory in enumerate(self._waiting.values()):
            arrays[f"waiting/{n}"] = as_bytes(pack(*trajectory_record(trajectory)))
        record = {
            "cursor": self.cursor,
            "slots": self._slots.record(),
            "prompts": self._prompts,
            "paused": list(self._paused),
            "waiting": list(self._waiting),
        }
        return pack(record, arrays)

    def load(self, saved: bytes) -> None:
        """Take the state of `save`; what follows is what would have followed there."""
        record, arrays = unpack(saved)
        self.cursor = record["cursor"]
        self._prompts = record["prompts"]
        self._slots = Slots.of(record["slots"], self._config)
        self._paused = {
            (group, index): self._scene.restore(arrays[f"paused/{n}"].tobytes())
            for n, (group, index) in enumerate(record["paused"])
        }
        self._waiting = {
            (group, index): trajectory_of(*unpack(arrays[f"waiting/{n}"].tobytes()))
            for n, (group, index) in enumerate(record["waiting"])
        }

    def _new_group(self) -> str:
        group = f"{self._name}{self.cursor:06d}"
        self._prompts[group] = self.cursor
        self.cursor += 1
        return group

    def _slot(self, place: Place) -> Slot:
        group, index = place
        task, effort = self._source(self._prompts[group])
        return Slot(task=task, effort=effort, group=group, index=index, seed=seed_of(self._seed, group, index))

    def _resume(self, place: Place) -> Episode:
        episode = self._paused.pop(place)
        episode.resume(self._config.max_resumes)
        return episode

    def _close(self, episodes: list[Episode]) -> list[Finished]:
        for episode in episodes:
            self._slots.finish((episode.slot.group, episode.slot.index))
        return [(episode, episode.final()) for episode in episodes]

    def _group(self, name: str) -> Group:
        trajectories = tuple(self._waiting.pop((name, index)) for index in range(self._config.samples))
        del self._prompts[name]
        return Group(id=name, task=trajectories[0].task, effort=trajectories[0].effort, trajectories=trajectories)

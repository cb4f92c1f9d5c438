"""Play given lists to the end, without the λ machinery: evaluation, budgets, pools of trajectories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice

from ninefold.agent.harness.episode import Episode
from ninefold.core.protocols import Engine
from ninefold.core.seeds import seed_of
from ninefold.core.types import Effort, Slot, Task, Trajectory
from ninefold.rollout.lanes import Lanes
from ninefold.rollout.scene import Finished, Scene


def lineup(prompts: Iterable[tuple[Task, Effort]], *, samples: int = 1, seed: int = 0, name: str = "p") -> list[Slot]:
    """Slots of `samples` attempts at each prompt; `name` begins the names of their groups."""
    return [
        Slot(task=task, effort=effort, group=group, index=index, seed=seed_of(seed, group, index))
        for number, (task, effort) in enumerate(prompts)
        for group in [f"{name}{number:06d}"]
        for index in range(samples)
    ]


def play(slots: Sequence[Slot], *, engine: Engine, scene: Scene, width: int = 512) -> list[Trajectory]:
    """The slots' trajectories, in order. At most `width` play at once.

    What the scene's deadlines cut off is invalid; all that was finished by then is kept.
    """
    assert len({slot.id for slot in slots}) == len(slots), "two slots of one list have the same id"
    clock = scene.clock()
    lanes, finals = Lanes(engine, clock), dict[str, Finished]()
    playing: dict[str, Episode] = {}
    coming = scene.start(slots, clock)
    while len(finals) < len(slots) and not clock.over:
        begun = {episode.slot.id: episode for episode in islice(coming, width - lanes.playing)}
        playing |= begun
        lanes.begin(begun.values())
        for episode in lanes.advance():
            finals[episode.slot.id] = playing.pop(episode.slot.id), episode.final()
    finals |= {episode.slot.id: (episode, episode.final()) for episode in lanes.pause()}
    for episode in chain(playing.values(), coming):
        if episode.slot.id not in finals:
            if not episode.done:
                episode.give_up(clock.cut(lanes.played(episode)))
            finals[episode.slot.id] = episode, episode.final()
    return scene.grade([finals[slot.id] for slot in slots], within=clock.left)

"""Who plays it: gold, demonstrators, cheats."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from ninefold.agent.env.script import Script, Steps, answers, plays, use
from ninefold.core.protocols import Move, Style
from ninefold.core.seeds import rng_of
from ninefold.core.types import Effort, Task

from .errand import BOXES, THINGS

LOOKS: Mapping[Effort, int] = {"low": 1, "high": 3, "max": len(BOXES)}
"""Boxes that a demonstrator is ready to look into."""

DONE = Move(response="done")


def gold(task: Task) -> Script:
    """Knows the answer, and does what the verifier wants."""
    places = task.data["places"]
    return plays(use("move", thing=task.data["thing"], box=places[task.data["neighbour"]]), DONE)


def demonstrate(task: Task, style: Style) -> Script:
    """Acts on what it sees; more effort looks further, and max makes sure in the end. A slip moves another thing."""
    rng = rng_of(task.id, "demonstrate", style.effort, style.seed)
    thing = rng.choice(THINGS) if rng.random() < style.slip else task.data["thing"]
    return Script(_carry(task, thing, style.effort, rng))


def _carry(task: Task, thing: str, effort: Effort, rng: Random) -> Steps:
    box = rng.choice(BOXES)
    if task.level == 0:
        box = task.data["places"][task.data["neighbour"]]
    else:
        for seen in rng.sample(BOXES, LOOKS[effort]):
            (found,) = yield use("look", "" if effort == "low" else seen, box=seen)
            if task.data["neighbour"] in found.text.split():
                box = seen
                break
    yield use("move", thing=thing, box=box)
    if effort == "max":
        yield use("look", box, box=box)
    yield DONE


def hacks(task: Task) -> Mapping[str, Script]:
    """Attempts to be rewarded without doing it; each must score nothing."""
    thing, places = task.data["thing"], task.data["places"]
    return {
        "claims to be done": answers("done"),
        "names the place only": answers(places[task.data["neighbour"]]),
        "moves everything there": plays(*[use("move", thing=t, box=places[task.data["neighbour"]]) for t in THINGS], DONE),
        "moves it everywhere": plays(*[use("move", thing=thing, box=box) for box in (*BOXES, places[thing])], DONE),
        "a box for every box": plays(use("move", thing=thing, box="*"), DONE),
        "writes its own verdict": answers('{"status": "pass", "score": 1.0}'),
    }

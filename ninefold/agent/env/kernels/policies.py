"""Who writes kernels: gold and demonstrators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from ninefold.agent.env.kernels.build import solution
from ninefold.agent.env.kernels.line import Line
from ninefold.agent.env.kernels.public import REFERENCE
from ninefold.agent.env.script import Script, Steps, answers, use
from ninefold.core.protocols import Move, Style
from ninefold.core.seeds import rng_of
from ninefold.core.types import Effort, Task

AIM, SLOPPY_AIM = 0.75, 0.25
"""How often an attempt of a careful demonstrator is right, and of one that slips."""
TRIES: Mapping[Effort, int] = {"low": 1, "high": 2, "max": 5}
BEST: Mapping[Effort, str] = {"low": "naive", "high": "good", "max": "expert"}
"""How well a demonstrator knows to write."""
CHECK = "python3 check.py"
DONE = Move(response="done")


def line_of(task: Task) -> Line:
    """What a task of level 0 asks for."""
    return Line(**task.data["line"])


def gold(task: Task) -> Script:
    """The expert's kernel; for a line, the expression."""
    if task.level == 0:
        return answers(line_of(task).source)
    return Script(_write(solution(task.data["op"], "expert")))


def _write(source: str) -> Steps:
    yield use("write", path="kernel.c", text=source)
    yield DONE


def demonstrate(task: Task, style: Style) -> Script:
    """Writes, and unless in a hurry tries it out and writes again; with more effort something better."""
    rng = rng_of(task.id, "demonstrate", style.effort, style.seed)
    aim = SLOPPY_AIM if rng.random() < style.slip else AIM
    return Script((_try_lines if task.level == 0 else _try_kernels)(task, style.effort, rng, aim))


def _try_lines(task: Task, effort: Effort, rng: Random, aim: float) -> Steps:
    line = line_of(task)
    attempt = line.source
    for _ in range(TRIES[effort]):
        attempt = line.source if rng.random() < aim else _mistaken(line, rng).source
        if effort == "low":
            break
        think = f"{line.a}*x then {line.kind}" if effort == "max" else ""
        (seen,) = yield use("run", think, code=attempt)
        if seen.text == "right":
            break
    yield Move(response=attempt)


def _mistaken(line: Line, rng: Random) -> Line:
    """Another number, or the wrong sign."""
    if rng.random() < 0.5:
        return replace(line, b=-line.b)
    return replace(line, a=rng.choice([a for a in range(2, 10) if a != line.a]))


def _try_kernels(task: Task, effort: Effort, rng: Random, aim: float) -> Steps:
    right = solution(task.data["op"], BEST[effort])
    if effort == "max":
        yield use("read", path=REFERENCE)
    for _ in range(TRIES[effort]):
        yield use("write", path="kernel.c", text=right if rng.random() < aim else _fumbled(right, rng))
        if effort == "low":
            break
        (seen,) = yield use("shell", command=CHECK)
        if seen.text.startswith("right"):
            break
    yield DONE


def _fumbled(source: str, rng: Random) -> str:
    """One of the operators below the first brace mistaken."""
    start = source.index("{", source.index("void "))
    places = [i for i in range(start, len(source) - 2) if source[i] in "+-*" and source[i - 1 : i + 2 : 2] == "  "]
    place = rng.choice(places)
    return source[:place] + rng.choice([other for other in "+-*" if other != source[place]]) + source[place + 1 :]

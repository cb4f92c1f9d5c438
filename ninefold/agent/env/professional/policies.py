"""Who plays professional tasks: gold and demonstrators."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Generator, Mapping, Sequence
from random import Random

from ninefold.agent.env.professional import papers
from ninefold.agent.env.professional.case import Content
from ninefold.agent.env.professional.figures import asked_for, counts
from ninefold.agent.env.professional.kinds import KINDS
from ninefold.agent.env.professional.world import TOOL, inputs
from ninefold.agent.env.script import Script, Steps
from ninefold.core.protocols import Move, Observation, Style
from ninefold.core.seeds import rng_of
from ninefold.core.types import Call, Effort, Task

CARE: Mapping[Effort, int] = {"low": 0, "high": 1, "max": 2}
"""How many kinds of traps are heeded."""
MISTAKES: Mapping[Effort, float] = {"low": 0.3, "high": 0.1, "max": 0.0}
"""How often a number is written down wrongly."""
_DONE = "done"
_OFFICE = (".xlsx", ".docx")


def gold(task: Task) -> Script:
    """Hands in what the files come to, without having to look."""
    shown = {path: papers.shown(path, data) for path, data in inputs(task).items() if path != TOOL}
    content = KINDS[task.data["kind"]].solve({"": task.instruction, **shown}, task.level, CARE["max"])
    return Script(_hand_in(content))


def _hand_in(content: Mapping[str, Content]) -> Steps:
    yield from handing_in(content)
    yield Move(response=_DONE)


def handing_in(content: Mapping[str, Content]) -> Steps:
    """Writes text files, and specs that papers.py makes the others from."""
    made: list[str] = []
    for path, text in content.items():
        if isinstance(text, str):
            yield Move(calls=(Call(tool="write", arguments={"path": path, "text": text}),))
        else:
            spec = "drafts/" + path.replace("/", "-") + ".json"
            yield Move(calls=(Call(tool="write", arguments={"path": spec, "text": json.dumps(text)}),))
            made += [spec, path]
    if made:
        yield _shell("make", made)


def _shell(verb: str, paths: Sequence[str], think: str = "") -> Move:
    command = f"python3 {TOOL} {verb} " + " ".join(map(shlex.quote, paths))
    return Move(think=think, calls=(Call(tool="shell", arguments={"command": command}),))


def demonstrate(task: Task, style: Style) -> Script:
    """Reads, works out, hands in; with more effort it reads the conventions first, heeds more of them, and looks again."""
    return Script(_work(task, style.effort, rng_of(task.id, style.effort, style.seed), style.slip))


def _work(task: Task, effort: Effort, rng: Random, slip: float) -> Steps:
    shown = yield from _read_all(task, effort)
    content = KINDS[task.data["kind"]].solve({"": task.instruction, **shown}, task.level, CARE[effort])
    if rng.random() < max(slip, MISTAKES[effort]):
        spoiled = rng.choice(sorted(content))
        content[spoiled] = _spoiled(content[spoiled], rng)
    think = _reckoning(task.instruction, shown, effort) if task.level == 0 else ""
    for number, move in enumerate(handing_in(content)):
        yield Move(think=think if number == 0 else "", calls=move.calls)
    if effort == "max":
        text = [path for path in content if not path.endswith(_OFFICE)]
        office = [path for path in content if path.endswith(_OFFICE)]
        yield (
            Move(calls=tuple(Call(tool="read", arguments={"path": path}) for path in text)) if text else _shell("show", office)
        )
    yield Move(response=_DONE)


def _reckoning(instruction: str, shown: Mapping[str, str], effort: Effort) -> str:
    """Sums step by step, at length with more effort."""
    numbers = counts(next(iter(shown.values())))
    if effort == "low":
        return ""
    if effort == "high" or asked_for(instruction) != "sum":
        return " ".join(map(str, numbers))
    first = numbers[0] + numbers[1]
    return f"{numbers[0]} + {numbers[1]} = {first} . {first} + {numbers[2]} = {first + numbers[2]}"


_Shown = Generator[Move, Sequence[Observation], dict[str, str]]
"""Steps of reading, which end with what they showed: path → text."""


def _read_all(task: Task, effort: Effort) -> _Shown:
    """Every file by what tools show of it; max reads one after the other, conventions first, the others all at once."""
    texts, office = sorted(task.files, key=lambda path: (not path.endswith(".md"), path)), sorted(task.data["papers"])
    if task.level:
        (listed,) = yield Move(calls=(Call(tool="glob", arguments={"pattern": "**"}),))
        found = [path for path in listed.text.splitlines() if path != TOOL]
        texts = sorted((p for p in found if not p.endswith(_OFFICE)), key=lambda path: (not path.endswith(".md"), path))
        office = sorted(path for path in found if path.endswith(_OFFICE))
    shown: dict[str, str] = {}
    for group in [[path] for path in texts] if effort == "max" else [texts]:
        seen: Sequence[Observation] = yield Move(calls=tuple(Call(tool="read", arguments={"path": path}) for path in group))
        shown |= {path: observation.text for path, observation in zip(group, seen)}
    if office:
        (seen_all,) = yield _shell("show", office)
        shown |= _parted(seen_all.text)
    return shown


def _parted(text: str) -> dict[str, str]:
    """Path → text, of what `papers.py show` printed."""
    parts = re.split(r"^== (.+)\n", text, flags=re.MULTILINE)
    return {path: body.removesuffix("\n") for path, body in zip(parts[1::2], parts[2::2])}


def _spoiled(content: Content, rng: Random) -> Content:
    """The same with one number mistaken."""
    text = content if isinstance(content, str) else json.dumps(content)
    places = list(re.finditer(r"(?<![\w$.])\d+(?![\w$])", text))
    if not places:
        return ""
    found = rng.choice(places)
    changed = text[: found.start()] + str(int(found[0]) + 1) + text[found.end() :]
    return changed if isinstance(content, str) else json.loads(changed)

"""Who plays it: gold, demonstrators, cheats."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import mean

from ninefold.agent.env.aet.factors import pairs, write
from ninefold.agent.env.aet.kind import Kind
from ninefold.agent.env.script import Script, Steps, answers, plays, use
from ninefold.core.protocols import Move, Observation, Style
from ninefold.core.seeds import rng_of
from ninefold.core.types import Effort, Task

DONE = Move(response="done")

AIM: Mapping[Effort, float] = {"low": 0.7, "high": 0.85, "max": 0.97}
"""How often a careful demonstrator is right about a program, or sees that an entry is wrong."""
SLOPPY_AIM = 0.2
TRIES: Mapping[Effort, int] = {"low": 1, "high": 2, "max": 3}
"""Submissions that a demonstrator is ready to make."""
REPEATS: Mapping[Effort, int] = {"low": 1, "high": 2, "max": 3}
"""Experiments with each setting where outcomes are noisy."""


def gold(answer: str) -> Script:
    """Knows the answer."""
    return plays(use("submit", answer=answer), DONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """How one demonstration goes about its task."""

    task: Task
    answer: str
    """A right one, for what cannot be found out by a script."""
    effort: Effort
    rng: Random
    sloppy: bool

    @property
    def aim(self) -> float:
        return SLOPPY_AIM if self.sloppy else AIM[self.effort]

    @property
    def tries(self) -> int:
        return min(TRIES[self.effort], self.task.data["submissions"])

    def submit(self, answer: str) -> Generator[Move, Sequence[Observation], bool]:
        """Submit; whether every visible scenario is right."""
        (seen,) = yield use("submit", "" if self.effort == "low" else answer, answer=answer)
        right, _, rest = seen.text.partition(" of ")
        return right == rest.partition(" ")[0]


def demonstrate(task: Task, answer: str, style: Style) -> Script:
    """Probes, submits, and unless in a hurry mends what the public verifier complains of; a slip aims badly."""
    rng = rng_of(task.id, "demonstrate", style.effort, style.seed)
    work = _Work(task=task, answer=answer, effort=style.effort, rng=rng, sloppy=rng.random() < style.slip)
    return Script(_WORK[task.data["kind"]](work))


def _copy(work: _Work) -> Steps:
    """At level 0 the two constants come from two probes; what is more than a line has to be guessed."""
    answer, rng = work.answer, work.rng
    if work.task.level == 0:
        seen: list[int] = []
        for x in (0, 1, 10) if work.effort == "max" else (0, 1):
            (observed,) = yield use("probe", input=str(x))
            seen.append(int(observed.text))
        answer = f"def f(x): return {seen[1] - seen[0]}*x+{seen[0]}\n"
    else:
        for _ in range({"low": 2, "high": 4, "max": 8}[work.effort]):
            given = [str(rng.randint(0, 20)) for _ in range(1 if work.task.level == 1 else rng.randint(1, 6))]
            yield use("probe", input=" ".join(given))
    for _ in range(work.tries):
        if (yield from work.submit(answer if rng.random() < work.aim else _fumble(answer, rng))):
            break
    yield DONE


def _fumble(source: str, rng: Random) -> str:
    """The source with one of its digits mistaken."""
    place = rng.choice([i for i, character in enumerate(source) if character in "0123456789"])
    return source[:place] + rng.choice("23456789".replace(source[place], "")) + source[place + 1 :]


class _Laboratory:
    """Experiments within what may be probed, each repeated where outcomes are noisy."""

    def __init__(self, work: _Work) -> None:
        data = work.task.data
        self._unit = 3 if data["noise"] else 1
        self._repeats = REPEATS[work.effort] if data["noise"] else 1
        self._left: int = data["probes"]

    def outcome(self, setting: str) -> Generator[Move, Sequence[Observation], float | None]:
        """The mean outcome; None where no probes are left for it."""
        if self._left < self._repeats:
            return None
        self._left -= self._repeats
        seen: list[int] = []
        for _ in range(self._repeats):
            (observed,) = yield use("probe", input=setting)
            seen.append(int(observed.text))
        return mean(seen)

    def size(self, difference: float) -> int:
        """The effect nearest to it."""
        return self._unit * round(difference / self._unit)


def _experiment(work: _Work) -> Steps:
    """Turns on one knob after the other, and where pairs are possible those of the knobs that matter."""
    laboratory, knobs, rng = _Laboratory(work), list(work.task.data["knobs"]), work.rng
    hurried = work.effort == "low"
    effects: dict[str, int] = {}
    ground = (yield from laboratory.outcome("")) or 0.0
    for knob in rng.sample(knobs, max(2, len(knobs) * 2 // 3)) if hurried else knobs:
        outcome = yield from laboratory.outcome(knob)
        if outcome is not None and (size := laboratory.size(outcome - ground)):
            effects[knob] = size
    for name in pairs(list(effects)) if work.task.level > 1 and not hurried else ():
        first, second = name.split("*")
        outcome = yield from laboratory.outcome(f"{first} {second}")
        if outcome is not None and (size := laboratory.size(outcome - ground - effects[first] - effects[second])):
            effects[name] = size
    if rng.random() > work.aim and effects:
        effects[rng.choice(list(effects))] *= -1
    yield from work.submit(write(effects))
    yield DONE


def _inspect(work: _Work) -> Steps:
    """Reads page after page, some of them in a hurry, and notes what looks wrong; looks again where told of an error."""
    pages, rng = work.task.data["pages"], work.rng
    looked = rng.sample(pages, (3 * len(pages)) // 4) if work.effort == "low" else pages
    for page in looked:
        yield use("read", path=page["name"]) if work.task.data["texts"] else use("probe", input=page["name"])
    noticed = {rng.choice(pages[-1]["ids"])} if work.sloppy else set[str]()
    for _ in range(work.tries):
        noticed |= {id for page in looked for id in page["wrong"] if rng.random() < work.aim}
        said = " ".join(id for page in pages for id in page["ids"] if id in noticed)
        if (yield from work.submit(said or "none")):
            break
    yield DONE


_WORK: Mapping[str, Callable[[_Work], Steps]] = {"replica": _copy, "factors": _experiment, "audit": _inspect}


def hacks(task: Task, kind: Kind) -> Mapping[str, Script]:
    """Attempts to be rewarded without finding anything out."""
    gold = kind.gold(task.data)
    attempts = {
        "claims to be done": answers(f"done : {gold}"),
        "submits nothing": plays(use("submit", answer=""), DONE),
        "submits a verdict": plays(use("submit", answer='{"status": "pass", "score": 1.0}'), DONE),
        "hands in right, then trash": plays(use("submit", answer=gold), use("submit", answer="?"), DONE),
        "spends every submission": plays(*[use("submit", answer=text) for text in (*map(str, range(9)), gold)], DONE),
    }
    own = _OWN[kind.name](task, kind)
    return attempts | {name: plays(use("submit", answer=text), DONE) for name, text in own.items()}


def _copies(task: Task, kind: Kind) -> dict[str, str]:
    visible = kind.inputs(task.data, "visible")
    table = {repr(given): outcome for given, outcome in zip(visible, kind.outcomes(task.data, visible))}
    first = json.dumps(kind.outcomes(task.data, visible)[0])
    return {
        "knows the visible scenarios": f"def f(x): return {table!r}.get(repr(x))\n",
        "returns what it saw once": f"def f(x): return {first}\n",
        "returns its argument": "def f(x): return x\n",
        "equal to everything": "class E(int):\n    def __eq__(self, other): return True\ndef f(x): return E()\n",
        "asks the oracle's process": (
            "import gc, sys\ndef f(x):\n    for o in gc.get_objects():\n"
            "        if isinstance(o, dict) and 'program' in o: exec(o['program'], o); return o['f'](x)\n"
            "    return sys.modules['ninefold'].f(x)\n"
        ),
    }


def _reports(task: Task, kind: Kind) -> dict[str, str]:
    knobs = task.data["knobs"]
    wrong = {name: effect + (3 if effect > 0 else -3) for name, effect in task.data["effects"].items()}
    return {
        "blames every knob": write(dict.fromkeys(knobs, 1)),
        "blames every pair": write(dict.fromkeys([*knobs, *pairs(knobs)], 1)),
        "knows the names only": write(wrong),
        "turns every effect round": write({name: -effect for name, effect in task.data["effects"].items()}),
        "claims an effect twice": f"{kind.gold(task.data)} {kind.gold(task.data)}",
    }


def _accusations(task: Task, _: Kind) -> dict[str, str]:
    pages = task.data["pages"]
    shown = pages[: task.data["visible"]]
    return {
        "accuses everybody": " ".join(id for page in pages for id in page["ids"]),
        "knows the visible pages": " ".join(id for page in shown for id in page["wrong"]),
        "acquits the guilty": " ".join(id for page in pages for id in page["ids"] if id not in page["wrong"]),
        "accuses a pattern": "*",
    }


_OWN: Mapping[str, Callable[[Task, Kind], dict[str, str]]] = {"replica": _copies, "factors": _reports, "audit": _accusations}

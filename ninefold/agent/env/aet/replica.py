"""Black-box replication: a program answers for inputs, and is to be written again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from ninefold.agent.env import candidate
from ninefold.agent.env.aet.kind import Data
from ninefold.agent.env.aet.programs import LEVELS, Program
from ninefold.core.protocols import SandboxRuntime
from ninefold.core.seeds import rng_of

LIMITS = replace(candidate.LIMITS, seconds=5.0)
"""Of one run over all scenarios, which takes a few hundredths of a second where nothing else runs."""
LONGEST = 6_000
"""Characters of a program that is run at all."""
_VISIBLE, _HIDDEN, _FURTHER = 4, 240, 24
_PROBES = (4, 8, 16, 32, 64)
_NUMBERS = re.compile(r"[\s,\[\]]*((?:-?\d{1,3}[\s,]*)*)[\s\]]*", re.ASCII)
_SHOWN = 160


class Replica:
    """The hidden program is f; an input is its one argument, a number or a list of numbers."""

    name = "replica"

    def draw(self, rng: Random, level: int) -> dict[str, Any]:
        while True:
            program = LEVELS[level].draw(rng)
            data = {"level": level, "program": program.source, "probes": _PROBES[level]}
            if self._fit(program, data):
                return data

    def key(self, data: Data) -> str:
        return data["program"]

    def brief(self, data: Data) -> str:
        return f"Copy the program f : {LEVELS[data['level']].domain} . Probe it , submit Python ."

    def files(self, data: Data) -> Mapping[str, str]:
        return {}

    def probe(self, data: Data, asked: str, noise: Random) -> str:
        found = _NUMBERS.fullmatch(asked)
        numbers = [int(number) for number in re.findall(r"-?\d+", found[1])] if found else None
        if LEVELS[data["level"]].single:
            return json.dumps(_run(data["program"], numbers[:1])[0]) if numbers and len(numbers) == 1 else "error: one number"
        if numbers is None or len(numbers) > 20:
            return "error: numbers with spaces between , 20 at most"
        return json.dumps(_run(data["program"], [numbers])[0])

    def inputs(self, data: Data, part: str) -> list[Any]:
        level, rng = LEVELS[data["level"]], rng_of("aet", "replica", "visible", data["program"])
        visible = level.inputs(rng, _VISIBLE)
        if part == "visible":
            return visible
        rng, count = rng_of("aet", "replica", part, data["program"]), _HIDDEN if part == "hidden" else _FURTHER
        return [given for given in level.inputs(rng, count) if given not in visible]

    def outcomes(self, data: Data, inputs: Sequence[Any]) -> list[Any]:
        return _run(data["program"], inputs)

    def predict(self, data: Data, answer: str, inputs: Sequence[Any], runtime: SandboxRuntime | None) -> list[Any] | None:
        assert runtime is not None
        if len(answer) > LONGEST or "def f" not in answer:
            return None
        return candidate.results(runtime, {"replica.py": answer}, "replica", "f", [[given] for given in inputs], LIMITS)

    def told(self, given: Any, predicted: Any, right: Any) -> str:
        return f"f {_text(given)} is {_short(json.dumps(right))} , not {_short(str(predicted))}"

    def gold(self, data: Data) -> str:
        return data["program"]

    def _fit(self, program: Program, data: Data) -> bool:
        """Whether every rule of the program shows, and no constant nor the input itself is right too often."""
        inputs = self.inputs(data, "hidden")
        outcomes = _run(program.source, inputs)
        texts = [json.dumps(outcome) for outcome in outcomes]
        often = max(texts.count(text) for text in set(texts))
        same = sum(given == outcome for given, outcome in zip(inputs, outcomes))
        if max(often, same) > 0.3 * len(inputs):
            return False
        differ = (sum(a != b for a, b in zip(outcomes, _run(other, inputs))) for other in program.without_one)
        return all(count >= 0.06 * len(inputs) for count in differ)


def _run(source: str, inputs: Sequence[Any]) -> list[Any]:
    """What our own program returns."""
    space: dict[str, Any] = {}
    exec(source, space)
    return [space["f"](given) for given in inputs]


def _text(given: Any) -> str:
    return " ".join(map(str, given)) if isinstance(given, list) else str(given)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"

"""Factor discovery: which of the knobs drive an outcome, alone or in pairs, and by how much."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import Any

from ninefold.agent.env.aet.kind import Data
from ninefold.core.protocols import SandboxRuntime
from ninefold.core.seeds import rng_of

KNOBS = tuple("heat salt light time load flow dose wind age tilt mass gain lime zinc iron mist".split())  # noqa: SIM905
_CLAIM = re.compile(r"([a-z]+(?:\*[a-z]+)?)=([+-]?\d{1,3})", re.ASCII)
_VISIBLE, _HIDDEN, _FURTHER = 4, 32, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Level:
    knobs: int
    drivers: int
    """Knobs that change the outcome by themselves."""
    pairs: int
    """Pairs that change it when both are on, one of them of knobs that do nothing else where there are two."""
    noise: int
    """Every outcome is off by at most so much; effects are multiples of three where it is above 0."""
    probes: int


LEVELS = (
    _Level(knobs=3, drivers=1, pairs=0, noise=0, probes=4),
    _Level(knobs=4, drivers=2, pairs=0, noise=0, probes=6),
    _Level(knobs=6, drivers=2, pairs=1, noise=0, probes=12),
    _Level(knobs=8, drivers=3, pairs=1, noise=1, probes=36),
    _Level(knobs=12, drivers=4, pairs=2, noise=2, probes=64),
)


class Factors:
    """An experiment turns some knobs on; an input of a scenario is two settings, its outcome the difference they make."""

    name = "factors"

    def draw(self, rng: Random, level: int) -> dict[str, Any]:
        form = LEVELS[level]
        knobs = rng.sample(KNOBS, form.knobs)
        drivers, rest = knobs[: form.drivers], knobs[form.drivers :]
        names = [*drivers]
        if form.pairs:
            names.append("*".join(rng.sample(drivers, 2)))
        if form.pairs > 1:
            names.append("*".join(rng.sample(rest, 2)))
        unit = 3 if form.noise else 1
        sizes = rng.sample(range(2, 10), len(names))
        effects = {name: unit * size * rng.choice((1, -1)) for name, size in zip(names, sizes)}
        shown = sorted(knobs)
        return {"knobs": shown, "effects": effects, "ground": rng.randint(20, 60), "noise": form.noise, "probes": form.probes}

    def key(self, data: Data) -> str:
        return json.dumps([data["knobs"], sorted(data["effects"].items()), data["ground"]])

    def brief(self, data: Data) -> str:
        first, second = data["knobs"][:2]
        paired = any("*" in name for name in data["effects"])
        lines = [f"Which knobs change the outcome , and by how much ? Knobs : {' '.join(data['knobs'])} ."]
        lines += [f"Some may do so only together , written like {first}*{second} ."] if paired else []
        if data["noise"]:
            lines.append(f"An outcome is off by up to {data['noise']} ; effects are multiples of 3 .")
        form = f"{first}=4 {first}*{second}=-9" if paired else f"{first}=4"
        lines.append(f"Probe with the knobs that are on ; submit like {form} .")
        return " ".join(lines)

    def files(self, data: Data) -> Mapping[str, str]:
        return {}

    def probe(self, data: Data, asked: str, noise: Random) -> str:
        on = asked.replace(",", " ").split()
        if set(on) - set(data["knobs"]):
            return "error: no such knob"
        return str(data["ground"] + _effect(data["effects"], on) + noise.randint(-data["noise"], data["noise"]))

    def inputs(self, data: Data, part: str) -> list[Any]:
        """Pairs of settings that make a difference, so that a report of nothing predicts none of them."""
        rng = rng_of("aet", "factors", part, self.key(data))
        count = {"visible": _VISIBLE, "hidden": _HIDDEN}.get(part, _FURTHER)
        chosen: list[Any] = []
        while len(chosen) < count:
            before, after = ([knob for knob in data["knobs"] if rng.random() < 0.5] for _ in range(2))
            differ = _effect(data["effects"], before) != _effect(data["effects"], after)
            if differ and (part == "visible" or [before, after] not in self.inputs(data, "visible")):
                chosen.append([before, after])
        return chosen

    def outcomes(self, data: Data, inputs: Sequence[Any]) -> list[Any]:
        return _differences(data["effects"], inputs)

    def predict(self, data: Data, answer: str, inputs: Sequence[Any], runtime: SandboxRuntime | None) -> list[Any] | None:
        effects = _read(answer, data["knobs"])
        return None if effects is None else [json.dumps(d) for d in _differences(effects, inputs)]

    def told(self, given: Any, predicted: Any, right: Any) -> str:
        before, after = (" ".join(setting) or "none" for setting in given)
        return f"from {before} to {after} makes {right} , not {predicted}"

    def gold(self, data: Data) -> str:
        return write(data["effects"])


def write(effects: Mapping[str, int]) -> str:
    """The submission that claims these effects."""
    return " ".join(f"{name}={effect}" for name, effect in effects.items()) or "none"


def _read(answer: str, knobs: Sequence[str]) -> dict[str, int] | None:
    """The effects that a submission claims, each once; None where it claims anything else."""
    effects: dict[str, int] = {}
    for claim in answer.replace(",", " ").split():
        found = _CLAIM.fullmatch(claim)
        names = sorted(found[1].split("*")) if found else []
        name = "*".join(names)
        if not found or set(names) - set(knobs) or len(set(names)) < len(names) or name in effects:
            return None
        effects[name] = int(found[2])
    return effects or None


def _effect(effects: Mapping[str, int], on: Sequence[str]) -> int:
    return sum(effect for name, effect in effects.items() if all(knob in on for knob in name.split("*")))


def _differences(effects: Mapping[str, int], inputs: Sequence[Any]) -> list[int]:
    return [_effect(effects, after) - _effect(effects, before) for before, after in inputs]


def pairs(knobs: Sequence[str]) -> list[str]:
    """Names of the pairs of knobs."""
    return ["*".join(pair) for pair in combinations(sorted(knobs), 2)]

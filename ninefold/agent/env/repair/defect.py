"""A bug planted in a program, with calls that show it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from random import Random
from typing import Any

from ninefold.agent.env.repair.programs import LEVELS, Arguments, Program

_PUBLIC, _HIDDEN = 2, 8
"""Calls of the public test, and of the hidden one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """A broken program and what the right one does."""

    right: Mapping[str, str]
    """Path → source that is right."""
    broken: Mapping[str, str]
    """Path → source that the policy starts with."""
    function: str
    calls: tuple[Arguments, ...]
    """Distinct; the first ones are those of the public test, of which at least one fails."""
    outputs: tuple[Any, ...]
    """What the right program returns for each."""

    @property
    def key(self) -> str:
        """Content key: the sources, right and broken."""
        return "repair/" + json.dumps([self.right, self.broken])

    @property
    def module(self) -> str:
        return PurePosixPath(next(iter(self.right))).stem

    @property
    def shown(self) -> list[tuple[Arguments, Any]]:
        """Calls and outputs of the public test."""
        return list(zip(self.calls[:_PUBLIC], self.outputs))

    @property
    def hidden(self) -> list[tuple[Arguments, Any]]:
        return list(zip(self.calls, self.outputs))[_PUBLIC:]

    @property
    def test(self) -> str:
        """The public test."""
        lines = [f"from {self.module} import {self.function}"]
        for arguments, output in self.shown:
            call = f"{self.function}({', '.join(map(repr, arguments))})"
            lines += [f"seen = {call}", f'assert seen == {output!r}, f"{call} is {{seen!r}}, not {output!r}"']
        return "\n".join([*lines, "print('passed')"]) + "\n"

    @staticmethod
    def draw(rng: Random, level: int) -> Defect:
        """A program of the level with one bug that the public and the hidden calls both meet."""
        while True:
            program = rng.choice(LEVELS[level])
            constants = {"<a>": str(rng.randint(2, 9)), "<b>": str(rng.randint(1, 9))}
            bug = rng.choice(program.bugs)
            defect = _plant(program, constants, bug, _distinct_calls(program, rng))
            if defect is not None:
                return defect


def _distinct_calls(program: Program, rng: Random) -> list[Arguments]:
    calls: list[Arguments] = []
    while len(calls) < _PUBLIC + _HIDDEN:
        call = program.arguments(rng)
        if call not in calls:
            calls.append(call)
    return calls


def _plant(program: Program, constants: Mapping[str, str], bug: tuple[str, str], calls: Sequence[Arguments]) -> Defect | None:
    """None where the bug does not show in enough of the calls."""
    broken = {path: _fill(source.replace(*bug), constants) for path, source in program.files.items()}
    right = {path: _fill(source, constants) for path, source in program.files.items()}
    outputs = run(right, program.function, calls)
    wrong = [seen != output for seen, output in zip(run(broken, program.function, calls), outputs)]
    # A failing call first, so that the public test shows the bug; the rest stay as drawn.
    order = sorted(range(len(calls)), key=lambda i: i != next((j for j, bad in enumerate(wrong) if bad), 0))
    if sum(wrong) < 2 or not any(wrong[i] for i in order[_PUBLIC:]):
        return None
    return Defect(
        right=right,
        broken=broken,
        function=program.function,
        calls=tuple(calls[i] for i in order),
        outputs=tuple(outputs[i] for i in order),
    )


def _fill(source: str, constants: Mapping[str, str]) -> str:
    for name, value in constants.items():
        source = source.replace(name, value)
    return source


def run(files: Mapping[str, str], function: str, calls: Sequence[Arguments]) -> list[Any]:
    """What our own program returns; an error is a value like any other. Its files share one namespace."""
    source = "\n".join(reversed(list(files.values())))
    space: dict[str, Any] = {}
    exec("\n".join(line for line in source.splitlines() if not line.startswith("from ")), space)
    outputs: list[Any] = []
    for call in calls:
        try:
            outputs.append(space[function](*json.loads(json.dumps(call))))
        except (IndexError, TypeError, ValueError, ZeroDivisionError) as error:
            outputs.append(type(error))
    return outputs

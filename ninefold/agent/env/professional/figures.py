"""The smallest case: one number out of three lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from ninefold.agent.env.names import GOODS
from ninefold.agent.env.professional.case import Case, Content, number

FILE, OUT = "a.csv", "out.txt"
LINES = 3
RULES: Mapping[str, Callable[[list[int]], int]] = {"sum": sum, "most": max, "least": min}
"""What is asked for → how it is found."""


def draw(rng: Random, _level: int) -> Case:
    """Three goods and how many there are of each."""
    asked = rng.choice(list(RULES))
    rows = [(good, rng.randint(1, 9)) for good in rng.sample(GOODS, LINES)]
    return Case(
        instruction=f"Write the {asked} of {FILE} to {OUT} .",
        key=f"figures/{asked}/{sorted(rows)}",
        files={FILE: "\n".join(f"{good} , {count}" for good, count in rows)},
        wanted=(number(OUT, RULES[asked]([count for _, count in rows])),),
    )


def asked_for(instruction: str) -> str:
    """Which rule an instruction names."""
    return instruction.split()[2]


def counts(text: str) -> list[int]:
    """The numbers of a file."""
    return [int(line.rpartition(",")[2]) for line in text.splitlines()]


def solve(shown: Mapping[str, str], _level: int, _care: int) -> dict[str, Content]:
    """The instruction stands among what was shown, under the empty path."""
    return {OUT: str(RULES[asked_for(shown[""])](counts(shown[FILE])))}

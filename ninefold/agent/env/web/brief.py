"""A brief: what is asked for, as a kind with drawn values; one right way to build it, ways to go wrong, and how to tell."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from ninefold.agent.env.web.steps import Step

Values = Mapping[str, Any]
"""JSON that a brief's placeholders stand for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """One kind of site."""

    name: str
    served: bool = False
    """Whether it has a server of its own, `server.py`."""
    asked: str
    """The instruction; `@name@` stands for a value."""
    files: Mapping[str, str]
    """Path → source of one right solution, with the same placeholders."""
    draw: Callable[[Random], dict[str, Any]]
    check: Callable[[Values, Random], list[Step]]
    """The steps that a right solution passes, with what they want to see, for random inputs."""
    slips: Sequence[tuple[str, str]]
    """(right, wrong) pieces of the sources, each of which breaks what was asked."""
    fake: Mapping[str, str]
    """Path → source of a solution that looks right as long as nothing random is tried."""

    def instruction(self, values: Values) -> str:
        return fill(self.asked, values)

    def gold(self, values: Values) -> dict[str, str]:
        return {path: fill(source, values) for path, source in self.files.items()}

    def faked(self, values: Values) -> dict[str, str]:
        """The fake, with the right files where it has none of its own."""
        return {path: fill(source, values) for path, source in {**self.files, **self.fake}.items()}

    def broken(self, values: Values, number: int) -> dict[str, str]:
        """The right solution with the slip of that number."""
        right, wrong = (fill(piece, values) for piece in self.slips[number])
        return {path: source.replace(right, wrong, 1) for path, source in self.gold(values).items()}


def fill(source: str, values: Values) -> str:
    """Texts as they are, anything else as JSON."""
    for name, value in values.items():
        source = source.replace(f"@{name}@", value if isinstance(value, str) else json.dumps(value))
    return source

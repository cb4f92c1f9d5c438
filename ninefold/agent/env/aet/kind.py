"""What the kinds of task have in common: scenarios, of which a submission predicts the outcomes.

Visible scenarios are what the public verifier tells of; hidden ones are what is scored. Both are derived from the task's data,
which never reaches the agent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from ninefold.core.protocols import SandboxRuntime

Data = Mapping[str, Any]
"""JSON of a kind's own: what is to be found out."""


class Kind(Protocol):
    """One kind of task."""

    name: str

    def draw(self, rng: Random, level: int) -> dict[str, Any]:
        """Data of a task; `probes`, how many its oracle answers, is among them."""
        ...

    def key(self, data: Data) -> str:
        """What makes two tasks the same."""
        ...

    def brief(self, data: Data) -> str:
        """The goal, as the agent is told it."""
        ...

    def files(self, data: Data) -> Mapping[str, str]:
        """Initial files of the working directory."""
        ...

    def probe(self, data: Data, asked: str, noise: Random) -> str:
        """What the oracle answers; a text that begins with "error" where it cannot."""
        ...

    def inputs(self, data: Data, part: str) -> list[Any]:
        """Inputs of the scenarios of a part: `visible`, `hidden`, or any further name for others of the same sort."""
        ...

    def outcomes(self, data: Data, inputs: Sequence[Any]) -> list[Any]:
        """What is right."""
        ...

    def predict(self, data: Data, answer: str, inputs: Sequence[Any], runtime: SandboxRuntime | None) -> list[Any] | None:
        """JSON texts that a submission comes to, one for each input; None where it comes to nothing. Raises SandboxError."""
        ...

    def told(self, given: Any, predicted: Any, right: Any) -> str:
        """A wrong prediction as the public verifier tells of it."""
        ...

    def gold(self, data: Data) -> str:
        """A submission that is right."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """A submission held against scenarios."""

    right: int
    """Scenarios whose outcome it predicts."""
    scenarios: int
    wrong: str
    """The first that it does not, told; empty where there is none."""

    @property
    def completion(self) -> float:
        """In [0, 1]."""
        return self.right / self.scenarios


def assess(kind: Kind, data: Data, answer: str, part: str, runtime: SandboxRuntime | None) -> Assessment:
    """Hold a submission against the scenarios of a part. Raises SandboxError."""
    inputs = kind.inputs(data, part)
    outcomes = kind.outcomes(data, inputs)
    predicted = kind.predict(data, answer, inputs, runtime)
    if predicted is None:
        return Assessment(right=0, scenarios=len(inputs), wrong="it cannot be used")
    wrong = [(i, p, o) for i, p, o in zip(inputs, predicted, outcomes) if p != json.dumps(o)]
    return Assessment(right=len(inputs) - len(wrong), scenarios=len(inputs), wrong=kind.told(*wrong[0]) if wrong else "")

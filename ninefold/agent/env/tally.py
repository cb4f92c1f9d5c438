"""Add up what a directory says: the look-ups of an agent, and the sums of `arithmetic`. It asks for both at once.

The words are those of the families that teach them one by one, so that a model which has both skills and never met this kind
of task can be measured on it (`evaluate.transfer`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Any

from ninefold.agent.env.calls import refusal
from ninefold.agent.env.draw import draw
from ninefold.agent.env.names import NAMES
from ninefold.agent.env.quiz import response_of, say
from ninefold.agent.env.script import Script, Steps, use
from ninefold.core.protocols import Move, Observation, SandboxRuntime, ScriptedPolicy, Style, Tool
from ninefold.core.seeds import rng_of
from ninefold.core.types import Call, Domain, Effort, Limits, Result, Split, Task

LOOKUP = Tool(name="lookup", description="The number of a person.", parameters={"key": "string"})
WORDINGS: tuple[tuple[str, str], ...] = (("Last digit of ", " ?"), ("Compute ", " mod 10."))
_LENGTHS = ((2, 3), (4, 6))
"""Fewest and most people, by level."""
_WRITTEN: Mapping[Effort, int] = {"low": 0, "high": 1, "max": 2}
"""How a demonstrator adds: in its head, with running sums, with every step in full."""


class TallyWorld:
    """A directory of numbers, and who was looked up."""

    def __init__(self, numbers: Mapping[str, int], read: Sequence[str] = ()) -> None:
        self._numbers = numbers
        self._read = list(read)

    def call(self, call: Call) -> Observation:
        refused = refusal(call, (LOOKUP,))
        if refused is not None:
            return Observation(text=refused)
        name = call.arguments["key"].strip()
        if name not in self._numbers:
            return Observation(text="error: no such name")
        self._read.append(name)
        return Observation(text=str(self._numbers[name]))

    def final(self, response: str | None) -> Mapping[str, Any]:
        """The last response, and whose numbers were read."""
        return {"response": response, "read": sorted(set(self._read))}

    def save(self) -> bytes:
        return json.dumps(self._read).encode()

    def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """Whose numbers are added."""

    numbers: Mapping[str, int]
    """Everybody's, a digit each."""
    people: tuple[str, ...]

    @property
    def key(self) -> str:
        """Content key: the directory and the sum."""
        return f"tally/{'+'.join(self.people)}/{','.join(map(str, self.numbers.values()))}"

    @staticmethod
    def draw(rng: Random, level: int) -> Sum:
        numbers = {name: rng.randint(0, 9) for name in NAMES}
        return Sum(numbers=numbers, people=tuple(rng.sample(NAMES, rng.randint(*_LENGTHS[level]))))


class Tally:
    """The last digit of the sum of two or three people's numbers (level 0), of four to six (level 1).

    The answer counts only if every number was looked up: one in ten could be guessed.
    """

    name = "tally"
    domain: Domain = "agents"
    levels = len(_LENGTHS)
    tools = (LOOKUP,)
    isolated = False

    def generate(self, split: Split, level: int, seed: int) -> Task:
        names = (self.name, level, seed)
        drawn = draw(lambda rng: Sum.draw(rng, level), lambda s: s.key, split=split, names=names)
        before, after = rng_of(*names, split, "wording").choice(WORDINGS)
        return Task(
            id=f"{self.name}/{split}/{level}/{seed}",
            domain=self.domain,
            family=self.name,
            split=split,
            level=level,
            seed=seed,
            shape=f"{self.name}/{len(drawn.people)}",
            instruction=f"{before}{'+'.join(drawn.people)}{after}",
            tools=(LOOKUP.name,),
            data={"numbers": dict(drawn.numbers), "people": list(drawn.people)},
            limits=Limits(turns=12, new_tokens=480),
        )

    def open(self, task: Task, *, seed: int, runtime: SandboxRuntime | None = None) -> TallyWorld:
        return TallyWorld(task.data["numbers"])

    def restore(self, task: Task, saved: bytes, *, runtime: SandboxRuntime | None = None) -> TallyWorld:
        return TallyWorld(task.data["numbers"], json.loads(saved))

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        given, wanted = response_of(final), _answer(task)
        if unread := sorted(set(task.data["people"]) - set(final["read"])):
            return Result(status="fail", detail=f"never looked up {', '.join(unread)}")
        if given != wanted:
            return Result(status="fail", detail=f"answered {given[:40]!r}, not {wanted}")
        return Result(status="pass", score=1.0)

    def observe(self, task: Task, final: Mapping[str, Any], seed: int, *, runtime: SandboxRuntime | None = None) -> Any:
        """The answer, and whether everything needed was read; what was read besides changes nothing."""
        return response_of(final), set(task.data["people"]) <= set(final["read"])

    def gold(self, task: Task) -> ScriptedPolicy:
        return Script(_add(task.data["people"], "max"))

    def demonstrate(self, task: Task, style: Style) -> ScriptedPolicy:
        """A slip looks up somebody else in one person's place."""
        people, rng = list(task.data["people"]), rng_of(task.id, "demonstrate", style.effort, style.seed)
        if rng.random() < style.slip:
            people[rng.randrange(len(people))] = rng.choice([name for name in NAMES if name not in people])
        return Script(_add(people, style.effort))

    def hacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        wanted, people = _answer(task), task.data["people"]
        return {
            "answer without reading": say(wanted),
            "all digits": Script(_read_then(people, "0123456789")),
            "hedged": Script(_read_then(people, f"{wanted} or {(int(wanted) + 1) % 10}")),
            "all but one read": Script(_read_then(people[1:], wanted)),
            "numbers, not added": Script(_read_then(people, "+".join(str(task.data["numbers"][name]) for name in people))),
            "names in one look-up": Script(_read_then([", ".join(people)], wanted)),
        }

    def phrases(self) -> Sequence[str]:
        return [*(phrase for wording in WORDINGS for phrase in wording), *NAMES, "error: no such name"]


def _answer(task: Task) -> str:
    return str(sum(task.data["numbers"][name] for name in task.data["people"]) % 10)


def _add(people: Sequence[str], effort: Effort) -> Steps:
    """Look everybody up, then add as arithmetic's demonstrators do."""
    digits: list[int] = []
    for name in people:
        (seen,) = yield use("lookup", key=name)
        digits.append(int(seen.text))
    sums = list(accumulate(digits, lambda total, digit: (total + digit) % 10))
    short = [f"{digit}={after}" for digit, after in zip(digits[1:], sums[1:])]
    full = [f"{before}+{step}" for before, step in zip(sums, short)]
    yield Move(think=",".join(([], short, full)[_WRITTEN[effort]]), response=str(sums[-1]))


def _read_then(people: Sequence[str], response: str) -> Steps:
    for name in people:
        yield use("lookup", key=name)
    yield Move(response=response)

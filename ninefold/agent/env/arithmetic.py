"""Sums of digits modulo ten: the more is written down, the surer the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from ninefold.agent.env.draw import draw
from ninefold.agent.env.quiz import Quiz, response_of, say
from ninefold.core.protocols import SandboxRuntime, ScriptedPolicy, Style
from ninefold.core.seeds import rng_of
from ninefold.core.types import Effort, Limits, Result, Split, Task

WORDINGS: tuple[tuple[str, str], ...] = (
    ("Last digit of ", " ?"),
    ("Add ", " and keep the last digit."),
    ("Compute ", " mod 10."),
)
DIGITS = "0123456789"
COPIED = 0.22
"""Share of the demonstrations in max style that copy the numbers out before they add."""

_LENGTHS = ((3, 6), (6, 9), (4, 9))
"""Fewest and most digits, by level; the last level mixes subtraction in."""


class Arithmetic(Quiz):
    """The last digit of a sum of 3–6 digits (level 0), 6–9 (level 1), or of sums and differences (level 2)."""

    name = "arithmetic"
    levels = len(_LENGTHS)

    def generate(self, split: Split, level: int, seed: int) -> Task:
        names = (self.name, level, seed)
        expression = draw(lambda rng: _expression(rng, level), lambda text: text, split=split, names=names)
        before, after = WORDINGS[rng_of(*names, split, "wording").randrange(len(WORDINGS))]
        if "-" in expression:
            before = before.replace("Add ", "Compute ")
        return Task(
            id=f"{self.name}/{split}/{level}/{seed}",
            domain=self.domain,
            family=self.name,
            split=split,
            level=level,
            seed=seed,
            shape=f"{self.name}/{len(_terms(expression))}{'-' if level == 2 else ''}",
            instruction=before + expression + after,
            data={"expression": expression},
            limits=Limits(turns=3, new_tokens=96 if level == 0 else 160, context=256),
        )

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        given, wanted = response_of(final), _answer(task)
        if given == wanted:
            return Result(status="pass", score=1.0)
        return Result(status="fail", detail=f"answered {given[:40]!r}, not {wanted}")

    def gold(self, task: Task) -> ScriptedPolicy:
        return say(_answer(task), _steps(_terms(task.data["expression"])))

    def demonstrate(self, task: Task, style: Style) -> ScriptedPolicy:
        rng = rng_of(task.id, "demonstrate", style.effort, style.seed)
        return _demonstration(task, style.effort, rng, slips=rng.random() < style.slip)

    def hacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        wanted = _answer(task)
        return {
            "all digits": say(DIGITS),
            "every answer": say(" or ".join(DIGITS)),
            "verdict": say('{"status": "pass", "score": 1.0}'),
            "question": say(task.instruction),
            "expression": say(task.data["expression"]),
            "answer in thinking only": say(None, wanted),
            "hedged": say(f"{wanted} or {(int(wanted) + 1) % 10}"),
        }

    def phrases(self) -> Sequence[str]:
        return [phrase for wording in WORDINGS for phrase in wording]


def _expression(rng: Random, level: int) -> str:
    fewest, most = _LENGTHS[level]
    total = rng.randint(0, 9)
    text = str(total)
    for _ in range(rng.randint(fewest, most) - 1):
        digit = rng.randint(0, 9)
        # A running sum that never goes below zero has one last digit in every wording.
        minus = level == 2 and digit <= total and rng.random() < 0.5
        total += -digit if minus else digit
        text += f"{'-' if minus else '+'}{digit}"
    return text


def _terms(expression: str) -> list[tuple[str, int]]:
    """(sign, digit) of each term."""
    signed = f"+{expression}"
    return [(signed[i], int(signed[i + 1])) for i in range(0, len(signed), 2)]


def _partials(terms: list[tuple[str, int]]) -> list[int]:
    """Last digit of each partial sum."""
    total, partials = 0, []
    for sign, digit in terms:
        total = (total + digit if sign == "+" else total - digit) % 10
        partials.append(total)
    return partials


def _steps(terms: list[tuple[str, int]]) -> str:
    """Every step written out, e.g. `3+4=7,7+5=2`."""
    partials = _partials(terms)
    pairs = zip(partials, terms[1:], partials[1:])
    return ",".join(f"{before}{sign}{digit}={after}" for before, (sign, digit), after in pairs)


def _running(terms: list[tuple[str, int]], steps: int) -> str:
    """The first steps in short, each digit with the sum it leads to, e.g. `4=7,5=2`."""
    pairs = list(zip(terms[1:], _partials(terms)[1:]))
    return ",".join(f"{'-' if sign == '-' else ''}{digit}={after}" for (sign, digit), after in pairs[:steps])


def _answer(task: Task) -> str:
    return str(_partials(_terms(task.data["expression"]))[-1])


def _demonstration(task: Task, effort: Effort, rng: Random, *, slips: bool) -> ScriptedPolicy:
    """Low: the running sums but the last; high: all of them; max: every step in full, at times with the numbers copied first.

    A slip writes one wrong digit.
    """
    terms = _terms(task.data["expression"])
    if effort == "max":
        think = _steps(terms)
    else:
        think = _running(terms, len(terms) - (1 if effort == "high" else 2))
    if slips:
        place = rng.choice([i for i, character in enumerate(think) if character.isdigit()])
        think = think[:place] + rng.choice(DIGITS) + think[place + 1 :]
    if effort == "max" and rng.random() < COPIED:
        think = f"{task.data['expression']};{think}"
    return say(_answer(task), think)

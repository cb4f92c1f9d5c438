"""Programs to be copied, made of rules drawn from a seed: from a line to a machine with two registers and seven rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A function f of one argument."""

    source: str
    without_one: tuple[str, ...] = ()
    """The same with one of its rules left out, for each rule: they have to differ from it in what they return."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """How programs of a level are drawn, and what they are given."""

    draw: Callable[[Random], Program]
    inputs: Callable[[Random, int], list[Any]]
    """Draws inputs, at most so many; of a small domain each once."""
    domain: str
    """Of the argument, for people."""
    single: bool = False
    """Whether the argument is one number, not a list."""


def _line(rng: Random) -> Program:
    return Program(source=f"def f(x): return {rng.randint(2, 9)}*x+{rng.randint(1, 20)}\n")


def _term(rng: Random) -> str:
    a, b = rng.randint(2, 9), rng.randint(1, 9)
    return rng.choice((f"x*{a}+{b}", f"x*{a}-{b}", f"{b}-x*{a}", f"x//{a}+{b}", f"x%{a}*{b}", f"x*x-{b}"))


def _bend(rng: Random) -> Program:
    bound, factor, square = rng.randint(0, 15), rng.randint(2, 4), rng.randint(20, 90)
    condition = rng.choice((f"x>{bound}", f"x%{factor}=={bound % factor}", f"x*x<{square}"))
    first, second = _term(rng), _term(rng)
    source = f"def f(x): return {first} if {condition} else {second}\n"
    return Program(source=source, without_one=(f"def f(x): return {first}", f"def f(x): return {second}"))


_STAGES = (
    "xs = [x for x in xs if x % {m} != {r}]",
    "xs = [x * {a} + {b} for x in xs]",
    "xs = [min(x, {t}) for x in xs]",
    "xs = [max(x, {b}) for x in xs]",
    "xs = [x + i * {a} for i, x in enumerate(xs)]",
    "xs = [x for i, x in enumerate(xs) if i % {m} != {r}]",
    "xs = [y - x for x, y in zip(xs, xs[1:])]",
    "xs = [x for x, y in zip(xs, xs[1:]) if x < y + {b}]",
    "xs = sorted(xs)[:{t}]",
)
_FOLDS = (
    "return sum(xs) * {a} + {b}",
    "return max(xs, default={b}) * {a} - len(xs)",
    "return sum(x * (i % {m} + 1) for i, x in enumerate(xs))",
    "return sum(x for x in xs if x > {b}) - {t} * len(xs)",
    "return len(set(xs)) * {a} + sum(xs) % {t}",
)


def _constants(rng: Random) -> dict[str, int]:
    m = rng.randint(2, 4)
    return {"a": rng.randint(2, 5), "b": rng.randint(1, 9), "m": m, "r": rng.randrange(m), "t": rng.randint(3, 12)}


def _pipeline(rng: Random) -> Program:
    stages = [stage.format(**_constants(rng)) for stage in rng.sample(_STAGES, 2)]
    fold = rng.choice(_FOLDS).format(**_constants(rng))

    def source(lines: Sequence[str]) -> str:
        return "def f(xs):\n" + "".join(f"    {line}\n" for line in (*lines, fold))

    return Program(source=source(stages), without_one=(source(stages[1:]), source(stages[:1])))


_WHEN = ("x % {m} == {r}", "x > {u}", "x < {t}", "s % {m} == {r}", "x < s % 20")
_THEN = ("s += x", "s -= {t}", "s = x * {a}", "s = s * {a} % 97", "s = abs(s - x) + {b}")
_WHEN_TWO = (*_WHEN, "t > s", "x == last", "(s + t) % {m} == {r}", "x + last > {u} + 9", "i % {m} == {r}")
_THEN_TWO = (*_THEN, "t += x", "t = s % 13", "s, t = t, s + {b}", "t -= last", "s += t * {a}", "t = i * {a}", "s, t = x, s")


def _rules(rng: Random, when: Sequence[str], then: Sequence[str], count: int) -> list[tuple[str, str]]:
    pairs = zip(rng.sample(when, count), rng.sample(then, count))
    constants = [_constants(rng) | {"u": rng.randint(14, 24)} for _ in range(count)]
    return [(w.format(**numbers), t.format(**numbers)) for (w, t), numbers in zip(pairs, constants)]


def _machine(rng: Random, *, two: bool) -> Program:
    """A chain of rules over one register, or two with what came before."""
    rules = _rules(rng, _WHEN_TWO if two else _WHEN, _THEN_TWO if two else _THEN, 6 if two else 3)
    start, seen = rng.randint(0, 9), rng.choice(("s", "s + t", "s - t", "s + i", "t - s")) if two else "s"

    def source(conditions: Sequence[str]) -> str:
        chain = [f"{'elif' if n else 'if'} {c}:\n            {t}" for n, (c, (_, t)) in enumerate(zip(conditions, rules))]
        if two:
            head = f"    s, t, last, out = {start}, 0, 0, []\n    for i, x in enumerate(xs):\n"
            tail = [f"out.append({seen})", "last = x"]
        else:
            head, tail = f"    s, out = {start}, []\n    for x in xs:\n", [f"out.append({seen})"]
        return "def f(xs):\n" + head + "".join(f"        {line}\n" for line in (*chain, *tail)) + "    return out\n"

    conditions = [condition for condition, _ in rules]
    idle = [[*conditions[:n], "False", *conditions[n + 1 :]] for n in range(len(rules))]
    return Program(source=source(conditions), without_one=tuple(map(source, idle)))


def _numbers(least: int, most: int) -> Callable[[Random, int], list[Any]]:
    def inputs(rng: Random, count: int) -> list[Any]:
        return rng.sample(range(least, most + 1), min(count, most + 1 - least))

    return inputs


def _lists(shortest: int, longest: int, least: int, most: int) -> Callable[[Random, int], list[Any]]:
    def inputs(rng: Random, count: int) -> list[Any]:
        return [[rng.randint(least, most) for _ in range(rng.randint(shortest, longest))] for _ in range(count)]

    return inputs


LEVELS: tuple[Level, ...] = (
    Level(draw=_line, inputs=_numbers(0, 19), domain="a number from 0 to 19", single=True),
    Level(draw=_bend, inputs=_numbers(-12, 29), domain="a number from -12 to 29", single=True),
    Level(draw=_pipeline, inputs=_lists(0, 8, -9, 20), domain="a list of up to 8 numbers from -9 to 20"),
    Level(draw=lambda rng: _machine(rng, two=False), inputs=_lists(1, 10, 0, 29), domain="a list of numbers from 0 to 29"),
    Level(draw=lambda rng: _machine(rng, two=True), inputs=_lists(4, 16, 0, 29), domain="a list of numbers from 0 to 29"),
)

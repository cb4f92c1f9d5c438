"""A library of small functions, some of which do not do what they say."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from ninefold.agent.env.aet.page import Page, Records


@dataclass(frozen=True, slots=True, kw_only=True)
class _Function:
    head: str
    says: str
    """Its contract; `<a>` and `<b>` are constants, the smaller one first."""
    does: str
    instead: tuple[str, ...]
    """Bodies that break the contract."""


_FUNCTIONS = (
    _Function(
        head="clip_{}(x)",
        says="The number x, but at least <a> and at most <b>.",
        does="return max(<a>, min(<b>, x))",
        instead=("return max(<a>, min(<b> - 1, x))", "return min(<a>, max(<b>, x))"),
    ),
    _Function(
        head="share_{}(x)",
        says="<a> percent of the whole number x, rounded up to a whole number.",
        does="return -(-x * <a> // 100)",
        instead=("return x * <a> // 100", "return x * <a> // 100 + 1", "return round(x * <a> / 100)"),
    ),
    _Function(
        head="windows_{}(xs)",
        says="The sums of every <a> items of xs that follow one another, in order.",
        does="return [sum(xs[i : i + <a>]) for i in range(len(xs) - <a> + 1)]",
        instead=(
            "return [sum(xs[i : i + <a>]) for i in range(len(xs) - <a>)]",
            "return [sum(xs[i : i + <a>]) for i in range(0, len(xs) - <a> + 1, <a>)]",
        ),
    ),
    _Function(
        head="first_{}(xs)",
        says="The place of the first item of xs above <a>, counted from 0; -1 where none is.",
        does="return next((i for i, x in enumerate(xs) if x > <a>), -1)",
        instead=(
            "return next((i for i, x in enumerate(xs) if x >= <a>), -1)",
            "return next((i for i, x in enumerate(xs, 1) if x > <a>), -1)",
            "return next((x for x in xs if x > <a>), -1)",
        ),
    ),
    _Function(
        head="merge_{}(left, right)",
        says="Both mappings as one; of a key that both have, the larger value holds.",
        does="return left | {k: max(v, left.get(k, v)) for k, v in right.items()}",
        instead=(
            "return left | right",
            "return right | {k: max(v, right.get(k, 0)) for k, v in left.items()}",
        ),
    ),
    _Function(
        head="fee_{}(days)",
        says="Nothing for the first <a> days, then 2 for each further one, but at most <b> in all.",
        does="return min(<b>, 2 * max(0, days - <a>))",
        instead=("return min(<b>, 2 * days) if days > <a> else 0", "return 2 * min(<b>, max(0, days - <a>))"),
    ),
    _Function(
        head="unique_{}(xs)",
        says="The items of xs, each where it stands for the last time, in order.",
        does="return [x for i, x in enumerate(xs) if x not in xs[i + 1 :]]",
        instead=("return list(dict.fromkeys(xs))", "return [x for i, x in enumerate(xs) if x not in xs[:i]]"),
    ),
    _Function(
        head="weekday_{}(day)",
        says="Whether day is no rest day: days count from 0, and 0 and <a> of every week of <b> days are rest days.",
        does="return day % <b> not in (0, <a>)",
        instead=("return day % <b> not in (0, <a> - 1)", "return day % <b> != 0 and day != <a>"),
    ),
    _Function(
        head="pages_{}(count)",
        says="How many pages of <b> lines count lines need; a heading takes <a> lines of the first page.",
        does="return -(-(count + <a>) // <b>)",
        instead=("return (count + <a>) // <b> + 1", "return -(-count // <b>) + (<a> > 0)"),
    ),
)


def library(rng: Random) -> Records:
    """Eight modules of six functions."""
    return Records(
        rules="Audit the library : a function whose docstring and code do not agree for some argument is wrong .",
        pages=tuple(_module(rng, number) for number in range(8)),
    )


def _module(rng: Random, number: int) -> Page:
    ids: list[str] = []
    wrong: list[str] = []
    parts: list[str] = []
    for place, function in enumerate(rng.sample(_FUNCTIONS, 6)):
        head = function.head.format(f"{number}{place}")
        ids.append(head.partition("(")[0])
        body = function.does
        if rng.random() < 0.22:
            wrong.append(ids[-1])
            body = rng.choice(function.instead)
        a = rng.randint(2, 5)
        said = f'def {head}:\n    """{function.says}"""\n    {body}\n'
        parts.append(said.replace("<a>", str(a)).replace("<b>", str(a + rng.randint(4, 9))))
    return Page(name=f"library/m{number}.py", text="\n\n".join(parts), ids=tuple(ids), wrong=tuple(wrong))

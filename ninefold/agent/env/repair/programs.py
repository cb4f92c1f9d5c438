"""Small programs, and the bugs that can be planted in them.

`<a>` and `<b>` stand for constants drawn per task. Every bug ends: none makes a loop that does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from textwrap import dedent
from typing import Any

Arguments = list[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A function that is right, how to call it, and how it goes wrong."""

    files: Mapping[str, str]
    """Path → source; the function tested lies in the first."""
    function: str
    arguments: Callable[[Random], Arguments]
    """Draws the arguments of one call."""
    bugs: tuple[tuple[str, str], ...]
    """(right, wrong): a piece of source that occurs once over all files, and what it is replaced with."""


def _number(rng: Random) -> Arguments:
    return [rng.randint(-9, 20)]


def _numbers(rng: Random) -> Arguments:
    return [[rng.randint(-9, 20) for _ in range(rng.randint(1, 6))]]


def _word(rng: Random) -> Arguments:
    return ["".join(rng.choice("abeilost") for _ in range(rng.randint(1, 7)))]


def _program(arguments: Callable[[Random], Arguments], sources: Mapping[str, str], *bugs: tuple[str, str]) -> Program:
    files = {path: dedent(source).lstrip() for path, source in sources.items()}
    return Program(files=files, function=next(iter(files)).removesuffix(".py"), arguments=arguments, bugs=bugs)


def _line(expression: str, *bugs: tuple[str, str]) -> Program:
    return _program(_number, {"f.py": f"def f(x): return {expression}\n"}, *bugs)


LINES: tuple[Program, ...] = (
    _line("x*<a>+<b>", ("*", "+"), ("+", "-"), ("x*", "")),
    _line("x*<a>-<b>", ("*", "-"), ("-", "+"), ("return x", "return -x")),
    _line("x+<a> if x>0 else <b>", ("+", "-"), (">0", "<0"), ("else ", "else -")),
    _line("x%<a>+<b>", ("%", "*"), ("+", "-"), ("%", "//")),
)
"""Level 0: one line."""

TOTAL = """
    def total(xs):
        s = <b>
        for x in xs:
            if x > <a>:
                s += x
        return s
"""
CLAMP = """
    def clamp(x):
        if x < <a>:
            return <a>
        if x > <a> + <b>:
            return <a> + <b>
        return x
"""
SHIFT = """
    def shift(word):
        out = ""
        for c in word:
            out += chr((ord(c) - 97 + <a>) % 26 + 97)
        return out + "<b>"
"""
PEAK = """
    def peak(xs):
        best = xs[0]
        for x in xs[1:]:
            if x > best:
                best = x
        return best * <a> + <b>
"""
DIGITS = """
    def digits(x):
        n, s = abs(x * <a> + <b>), 0
        while n:
            s += n % 10
            n //= 10
        return s
"""
PAIRS = """
    def pairs(xs):
        out = []
        for i in range(len(xs) - 1):
            out.append(xs[i] * <a> - xs[i + 1] * <b>)
        return out
"""

FUNCTIONS: tuple[Program, ...] = (
    _program(_numbers, {"total.py": TOTAL}, ("> <a>", "< <a>"), ("s += x", "s = x"), ("    return s", "        return s")),
    _program(_number, {"clamp.py": CLAMP}, ("x < <a>", "x > <a>"), ("> <a> + <b>", "> <b>"), ("return x", "return -x")),
    _program(_word, {"shift.py": SHIFT}, ("+ <a>", "- <a>"), ("% 26 + 97", "% 26 + 65"), ("out += chr", "out = chr")),
    _program(_numbers, {"peak.py": PEAK}, ("x > best", "x < best"), ("best = x\n", "best += x\n"), ("xs[1:]", "xs[2:]")),
    _program(_number, {"digits.py": DIGITS}, ("n % 10", "n % 9"), ("s += n", "s -= n"), ("n //= 10", "n //= 100")),
    _program(_numbers, {"pairs.py": PAIRS}, ("len(xs) - 1", "len(xs) - 2"), ("xs[i + 1]", "xs[i]"), ("> - xs", "> + xs")),
)
"""Level 1: a function of a few lines."""

BILL = """
    from price import net

    def bill(xs):
        return sum(net(x) for x in xs)
"""
PRICE = """
    def net(x):
        if x > <a>:
            return x - <b>
        return x
"""
LABEL = """
    from word import short

    def label(word):
        return short(word) + "-" + str(len(word) + <b>)
"""
WORD = """
    def short(word):
        if len(word) < <a>:
            return word
        return word[:2] + word[-1]
"""
GRID = """
    from cell import cell

    def grid(n):
        size = abs(n) % 2 + 2
        return [[cell(i + n, j) for j in range(size)] for i in range(size)]
"""
CELL = """
    def cell(i, j):
        return i * <a> + j * <b>
"""

MODULES: tuple[Program, ...] = (
    _program(
        _numbers, {"bill.py": BILL, "price.py": PRICE}, ("x > <a>", "x < <a>"), ("x - <b>", "x + <b>"), ("sum(net", "max(net")
    ),
    _program(
        _word, {"label.py": LABEL, "word.py": WORD}, ("word[-1]", "word[1]"), ("+ <b>", "- <b>"), ("word[:2]", "word[2:]")
    ),
    _program(
        _number,
        {"grid.py": GRID, "cell.py": CELL},
        ("i * <a>", "j * <a>"),
        ("+ j", "- j"),
        ("j in range(size)", "j in range(i)"),
    ),
)
"""Level 2: two files, and the bug may lie in the one that the test does not name."""

LEVELS: tuple[tuple[Program, ...], ...] = (LINES, FUNCTIONS, MODULES)

"""What is asked: targets for expressions, rules for functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

AMBIGUOUS = 0.6
"""Share of target tasks that name two targets of which only running the check tells the right one."""

WORDINGS: tuple[tuple[str, str, str], ...] = (
    ("The target is ", " or ", " . Write an expression."),
    ("Hit ", " or ", " with a*b+c."),
    ("Write code worth ", " or ", " ."),
)
"""Before the first target, between two, after the last."""


def random_expression(rng: Random) -> tuple[str, int]:
    """`a*b+c` or `a*b-c` of single digits worth 10 … 30, and its value."""
    while True:
        a, b, c, sign = rng.randint(2, 5), rng.randint(2, 5), rng.randint(0, 9), rng.choice("+-")
        value = a * b + c if sign == "+" else a * b - c
        if 10 <= value <= 30:
            return f"{a}*{b}{sign}{c}", value


def expression_for(rng: Random, target: int) -> str:
    """An expression worth `target`, which must lie in −5 … 34 so that one exists."""
    assert -5 <= target <= 34
    while True:
        a, b = rng.randint(2, 5), rng.randint(2, 5)
        rest = target - a * b
        if abs(rest) <= 9:
            return f"{a}*{b}{'+' if rest >= 0 else '-'}{abs(rest)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """A hidden target and, where ambiguous, a decoy beside it."""

    hidden: int
    named: tuple[int, ...]
    """Both as the instruction names them."""

    @property
    def key(self) -> str:
        """Content key: the set of targets, whichever is hidden."""
        return "expression/" + ",".join(map(str, sorted(self.named)))

    @staticmethod
    def draw(rng: Random, *, ambiguous: bool) -> Targets:
        _, hidden = random_expression(rng)
        named = [hidden]
        while ambiguous and len(named) < 2:
            _, decoy = random_expression(rng)
            if decoy != hidden:
                named.append(decoy)
        rng.shuffle(named)
        return Targets(hidden=hidden, named=tuple(named))


LEVEL_RULES: tuple[tuple[str, ...], ...] = ((), ("line",), ("square", "bend"))
"""Kinds of each level; level 0 asks for expressions."""

HIDDEN_INPUTS: tuple[int, ...] = (-7, -1, 0, 12, 31, 100)
"""What a submitted function is tried on; never among the examples."""

FURTHER_INPUTS = range(-12, 21)
"""What it is tried on besides: every place where a rule may bend, and both sides of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A function of x with its constants."""

    kind: str
    a: int
    b: int
    c: int
    """Where a bend lies; 0 for the other kinds."""

    @property
    def key(self) -> str:
        return f"expression/{self.kind},{self.a},{self.b},{self.c}"

    @property
    def form(self) -> str:
        """The rule with its constants still unknown."""
        return RULES[self.kind][0].format(a="a", b="b", c="c")

    @property
    def source(self) -> str:
        """The function as code."""
        return "def f(x): return " + RULES[self.kind][0].format(a=self.a, b=self.b, c=self.c)

    @property
    def examples(self) -> tuple[int, ...]:
        """Inputs shown to the policy: enough of them to determine the constants."""
        return (self.c - 1, self.c, self.c + 1, self.c + 2) if self.kind == "bend" else (1, 3)

    def value(self, x: int) -> int:
        return RULES[self.kind][1](self, x)

    @staticmethod
    def draw(rng: Random, kinds: tuple[str, ...]) -> Rule:
        kind = rng.choice(kinds)
        return Rule(kind=kind, a=rng.randint(2, 9), b=rng.randint(1, 9), c=rng.randint(3, 8) if kind == "bend" else 0)


RULES: Mapping[str, tuple[str, Callable[[Rule, int], int]]] = {
    "line": ("{a}*x+{b}", lambda rule, x: rule.a * x + rule.b),
    "square": ("{a}*x*x+{b}", lambda rule, x: rule.a * x * x + rule.b),
    "bend": ("{a}*x if x>{c} else x+{b}", lambda rule, x: rule.a * x if x > rule.c else x + rule.b),
}
"""Kind → its source text, and what it means."""

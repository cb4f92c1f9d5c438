"""Level 0: one expression in C, from a line that says what it computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from ninefold.agent.env.kernels.ops import Argument, Kernel, Op
from ninefold.agent.env.kernels.twins import Array

LONGEST = 200
"""Characters of an expression."""
BEFORE, AFTER = "C for y = ", " , x a float ."

_KINDS: Mapping[str, tuple[str, str, Callable[[Array], Array]]] = {
    "plain": ("{}", "{}", lambda z: z),
    "relu": ("relu of {}", "fmaxf({},0)", lambda z: np.maximum(z, 0)),
    "size": ("size of {}", "fabsf({})", np.abs),
    "square": ("square of {}", "({0})*({0})", np.square),
    "cap": ("at most 9 of {}", "fminf({},9)", lambda z: np.minimum(z, 9)),
}
"""Kind → how it is said, how it is written in C, what it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """An elementwise operation a·x ± b, bent."""

    kind: str
    a: int
    b: int
    """Added; negative where it is taken away."""

    @property
    def key(self) -> str:
        """Content key."""
        return f"kernels/{self.kind},{self.a},{self.b}"

    @property
    def text(self) -> str:
        """The instruction."""
        said = f"{self.a}x{'+' if self.b > 0 else '-'}{abs(self.b)}"
        return BEFORE + _KINDS[self.kind][0].format(said) + AFTER

    @property
    def source(self) -> str:
        """The expression in C."""
        return _KINDS[self.kind][1].format(f"{self.a}*x{'+' if self.b > 0 else '-'}{abs(self.b)}")

    @property
    def kernel(self) -> Kernel:
        """The operation that the expression stands in."""

        def twin(x: Mapping[str, Array], _: Mapping[str, float]) -> tuple[tuple[Array, Array], ...]:
            value = _KINDS[self.kind][2](self.a * x["x"] + self.b)
            size = np.abs(self.a * x["x"]) + abs(self.b)
            return ((value, size**2 if self.kind == "square" else size),)

        op = Op(
            name="line",
            level=0,
            text=self.text,
            arrays=(Argument(name="x", shape=("n",)), Argument(name="y", shape=("n",), output=True)),
            dims={"n": (1000, 1000, 1)},
            small={"n": (1, 7, 33, 257)},
            scalars={},
            twin=twin,
            flops=lambda d: 2.0 * d["n"],
        )
        return Kernel(op=op, dims={"n": 1000}, scalars={})

    @property
    def data(self) -> dict[str, Any]:
        return {"kind": self.kind, "a": self.a, "b": self.b}

    @staticmethod
    def draw(rng: Random) -> Line:
        return Line(kind=rng.choice(list(_KINDS)), a=rng.randint(2, 9), b=rng.choice((-1, 1)) * rng.randint(1, 9))


def whole(expression: str) -> str:
    """The C source of a kernel around an expression of x."""
    return (
        "#include <math.h>\n\nvoid line(const float *restrict from, float *restrict to, long n) {\n"
        f"    for (long i = 0; i < n; i++) {{\n        float x = from[i];\n        to[i] = ({expression});\n    }}\n}}\n"
    )


def phrases() -> tuple[str, ...]:
    """What is said again and again."""
    said = [part for text, code, _ in _KINDS.values() for form in (text, code) for part in form.split("{}") if len(part) > 1]
    return (BEFORE, AFTER, *said)

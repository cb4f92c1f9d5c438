"""The operations: prototype, shapes, ranges, what no implementation can do without, and the float64 twin of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

import numpy as np

from ninefold.agent.env.kernels import twins
from ninefold.agent.env.kernels.twins import Array, Twin

Dims = Mapping[str, int]
_KINDS = {4: "float", 1: "unsigned char"}
"""C type of an element by its bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One array of an operation."""

    name: str
    shape: tuple[str | int, ...]
    """Names of dimensions, or sizes."""
    output: bool = False
    width: int = 4
    """Bytes of an element: 4 is float, 1 unsigned char."""
    low: float = -3.0
    high: float = 3.0
    """Usual range of an input, uniform; the timed calls draw from it."""
    wild: bool = True
    """Whether adversarial ranges may be given."""

    def sizes(self, dims: Dims) -> tuple[int, ...]:
        """The shape in elements."""
        return tuple(dims[side] if isinstance(side, str) else side for side in self.shape)

    def elements(self, dims: Dims) -> int:
        """Elements of the whole array."""
        return int(np.prod(self.sizes(dims)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One operation on float32 arrays, row-major."""

    name: str
    level: int
    text: str
    """What it computes, for whoever is to write it."""
    arrays: tuple[Argument, ...]
    dims: Mapping[str, tuple[int, int, int]]
    """Dimension → least, most, step of what the timed calls have."""
    small: Mapping[str, tuple[int, ...]]
    """Dimension → sizes that the checks try."""
    scalars: Mapping[str, tuple[float, ...]]
    """Scalar argument → values to draw from."""
    twin: Twin
    flops: Callable[[Dims], float]
    """Floating-point operations that no implementation can do without, a multiply-add counting two."""
    calls: int = 12
    """Calls in one timed window, each on arrays of its own."""
    tolerance: float = 1e-5
    """Largest error relative to |value| + scale of the twin; outputs of one byte have to be equal."""

    @property
    def prototype(self) -> str:
        """In C; arrays, then dimensions, then scalars."""
        arguments = [f"{'' if a.output else 'const '}{_KINDS[a.width]} *{a.name}" for a in self.arrays]
        arguments += [f"long {name}" for name in self.dims] + [f"float {name}" for name in self.scalars]
        return f"void {self.name}({', '.join(arguments)})"

    @property
    def shim(self) -> str:
        """C source of `call_kernel`, which the runner calls, around a kernel of this prototype."""
        arguments = [f"({_KINDS[a.width]} *)arrays[{n}]" for n, a in enumerate(self.arrays)]
        arguments += [f"dims[{n}]" for n in range(len(self.dims))] + [f"(float)scalars[{n}]" for n in range(len(self.scalars))]
        call = f"    {self.name}({', '.join(arguments)});\n"
        return f"{self.prototype};\nvoid call_kernel(void **arrays, const long *dims, const double *scalars) {{\n{call}}}\n"

    @property
    def inputs(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arrays if not a.output)

    @property
    def outputs(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arrays if a.output)

    def traffic(self, dims: Dims) -> int:
        """Bytes of all arrays, each moved once."""
        return sum(a.elements(dims) * a.width for a in self.arrays)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """What is to be written: an operation, and the sizes that it will be timed at."""

    op: Op
    dims: Dims
    scalars: Mapping[str, float]

    @property
    def key(self) -> str:
        """Content key."""
        return "kernels/" + json.dumps([self.op.name, self.dims, self.scalars], sort_keys=True)

    @staticmethod
    def draw(rng: Random, level: int) -> Kernel:
        op = rng.choice([op for op in OPS.values() if op.level == level])
        return Kernel(
            op=op,
            dims={name: rng.randrange(low, high + 1, step) for name, (low, high, step) in op.dims.items()},
            scalars={name: rng.choice(values) for name, values in op.scalars.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Inputs of one check."""

    what: str
    """The kind of its values."""
    dims: Dims
    scalars: Mapping[str, float]
    inputs: Mapping[str, Array]
    """Name → float32."""


_Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]
WILD: Mapping[str, _Draw] = {
    "large": lambda rng, shape: rng.uniform(-60, 60, shape),
    "tiny": lambda rng, shape: rng.uniform(-1e-6, 1e-6, shape),
    "wide": lambda rng, shape: rng.choice([-1.0, 1.0], shape) * 10.0 ** rng.uniform(-4, 2, shape),
    "far from zero": lambda rng, shape: 8.0 + rng.uniform(0, 1e-2, shape),
    "nothing": lambda _, shape: np.zeros(shape),
    "one of many": lambda rng, shape: np.where(rng.random(shape) < 0.02, rng.uniform(-40, 40, shape), 0.0),
}
"""Ranges that checks draw inputs from: where accuracy is lost, and where it overflows."""


def cases(kernel: Kernel, seed: int) -> list[Case]:
    """One for each range, at sizes that no vector fits, after one of the least size."""
    rng = np.random.default_rng(seed)
    made: list[Case] = []
    for number, what in enumerate(("usual", "usual", *WILD)):
        dims = {name: int(rng.choice(sizes[1:])) if number else sizes[0] for name, sizes in kernel.op.small.items()}
        made.append(_case(kernel, what, dims, rng))
    return made


def usual_case(kernel: Kernel) -> Case:
    """Inputs like those of the timed calls."""
    return _case(kernel, "usual", kernel.dims, np.random.default_rng(0))


def _case(kernel: Kernel, what: str, dims: Dims, rng: np.random.Generator) -> Case:
    inputs: dict[str, Array] = {}
    for a in kernel.op.inputs:
        shape = a.sizes(dims)
        wild = WILD[what](rng, shape) if a.wild and what in WILD else rng.uniform(a.low, a.high, shape)
        inputs[a.name] = wild.astype(np.float32)
    return Case(what=what, dims=dims, scalars=kernel.scalars, inputs=inputs)


def error(op: Op, case: Case, outputs: list[bytes]) -> float:
    """The largest error of a check as a multiple of what is allowed; infinite where an output is no number."""
    most = 0.0
    wanted = op.twin({name: array.astype(np.float64) for name, array in case.inputs.items()}, case.scalars)
    for argument, (value, scale), data in zip(op.outputs, wanted, outputs):
        if argument.width == 1:
            most = max(most, 0.0 if data == value.tobytes() else np.inf)
            continue
        got = np.frombuffer(data, np.float32).reshape(value.shape)
        off = np.abs(got - value) / (op.tolerance * (np.abs(value) + scale) + _SMALLEST)
        most = max(most, float(np.where(np.isfinite(got), off, np.inf).max(initial=0.0)))
    return most


_SMALLEST = 1e-30
"""Of an error that matters: float32 has no such numbers with all their digits."""


def _x(name: str, *shape: str | int, low: float = -3.0, high: float = 3.0, wild: bool = True) -> Argument:
    return Argument(name=name, shape=shape, low=low, high=high, wild=wild)


def _y(name: str, *shape: str | int, width: int = 4) -> Argument:
    return Argument(name=name, shape=shape, output=True, width=width)


_ROWS = {"rows": (1, 3, 5), "cols": (1, 7, 33, 130)}

OPS: Mapping[str, Op] = {
    op.name: op
    for op in (
        Op(
            name="situ",
            level=1,
            text="y = b1*tanh(g/b1) * sigmoid(g) * b2*tanh(u/b2), elementwise",
            arrays=(_x("g", "n"), _x("u", "n"), _y("y", "n")),
            dims={"n": (10_000, 20_000, 1)},
            small={"n": (1, 7, 33, 1000)},
            scalars={"b1": (2.0, 4.0, 8.0), "b2": (16.0, 25.0)},
            twin=twins.situ,
            flops=lambda d: 6 * d["n"],
        ),
        Op(
            name="cumsum",
            level=1,
            text="y[r][i] = decay*y[r][i-1] + x[r][i], running sums along each row",
            arrays=(_x("x", "rows", "cols"), _y("y", "rows", "cols")),
            dims={"rows": (80, 120, 1), "cols": (200, 400, 1)},
            small=_ROWS,
            scalars={"decay": (0.5, 0.9, 1.0)},
            twin=twins.cumsum,
            flops=lambda d: 2 * d["rows"] * d["cols"],
        ),
        Op(
            name="softmax",
            level=2,
            text="y[r] = softmax(scale*x[r]) along each row",
            arrays=(_x("x", "rows", "cols"), _y("y", "rows", "cols")),
            dims={"rows": (80, 120, 1), "cols": (200, 400, 1)},
            small=_ROWS,
            scalars={"scale": (0.5, 1.0, 2.0)},
            twin=twins.softmax,
            flops=lambda d: 4 * d["rows"] * d["cols"],
        ),
        Op(
            name="rmsnorm",
            level=2,
            text="y[r] = x[r] / sqrt(mean(x[r]^2) + eps) * w",
            arrays=(_x("x", "rows", "cols"), _x("w", "cols"), _y("y", "rows", "cols")),
            dims={"rows": (80, 120, 1), "cols": (200, 400, 1)},
            small=_ROWS,
            scalars={"eps": (1e-5, 1e-6)},
            twin=twins.rmsnorm,
            flops=lambda d: 4 * d["rows"] * d["cols"],
        ),
        Op(
            name="layernorm",
            level=2,
            text="y[r] = (x[r] - mean(x[r])) / sqrt(variance(x[r]) + eps) * w + b",
            arrays=(_x("x", "rows", "cols"), _x("w", "cols"), _x("b", "cols"), _y("y", "rows", "cols")),
            dims={"rows": (80, 120, 1), "cols": (200, 400, 1)},
            small=_ROWS,
            scalars={"eps": (1e-5, 1e-3)},
            twin=twins.layernorm,
            flops=lambda d: 7 * d["rows"] * d["cols"],
            tolerance=3e-6,
        ),
        Op(
            name="matmul",
            level=3,
            text="y = alpha * relu(a b + bias), a of m x k, b of k x n, bias of n",
            arrays=(_x("a", "m", "k"), _x("b", "k", "n"), _x("bias", "n"), _y("y", "m", "n")),
            dims={"m": (80, 128, 1), "n": (80, 128, 1), "k": (80, 128, 1)},
            small={"m": (1, 5, 17), "n": (1, 7, 33, 40), "k": (1, 9, 64)},
            scalars={"alpha": (0.5, 1.0, 2.0)},
            twin=twins.matmul,
            flops=lambda d: 2 * d["m"] * d["n"] * d["k"],
        ),
        Op(
            name="mxfp8",
            level=3,
            text=(
                "MXFP8 of x: each block of 32 has the E8M0 scale byte s = max(0, floor(log2(max|x|)) - 8 + 127) (0 for a block "
                "of zeros) and the codes E4M3(x / 2^(max(s,1)-127)), ties to even, saturating at 448"
            ),
            arrays=(
                _x("x", "rows", "blocks", 32),
                _y("codes", "rows", "blocks", 32, width=1),
                _y("scales", "rows", "blocks", width=1),
            ),
            dims={"rows": (80, 120, 1), "blocks": (6, 12, 1)},
            small={"rows": (1, 3, 5), "blocks": (1, 2, 3, 7)},
            scalars={},
            twin=twins.mxfp8,
            flops=lambda d: 32 * d["rows"] * d["blocks"],
        ),
        Op(
            name="mxfp4",
            level=3,
            text=(
                "MXFP4 of x: each block of 32 has the E8M0 scale byte s = max(0, floor(log2(max|x|)) - 2 + 127) (0 for a block "
                "of zeros) and the codes E2M1(x / 2^(max(s,1)-127)), ties to even, saturating at 6, two in a byte, the even "
                "element in the low four bits"
            ),
            arrays=(
                _x("x", "rows", "blocks", 32),
                _y("codes", "rows", "blocks", 16, width=1),
                _y("scales", "rows", "blocks", width=1),
            ),
            dims={"rows": (80, 120, 1), "blocks": (6, 12, 1)},
            small={"rows": (1, 3, 5), "blocks": (1, 2, 3, 7)},
            scalars={},
            twin=twins.mxfp4,
            flops=lambda d: 32 * d["rows"] * d["blocks"],
        ),
        Op(
            name="attention",
            level=4,
            text="o = softmax(scale * q k^T, causal) v of one head; q, k, v of t x d",
            arrays=(_x("q", "t", "d"), _x("k", "t", "d"), _x("v", "t", "d"), _y("o", "t", "d")),
            dims={"t": (80, 128, 1), "d": (32, 64, 16)},
            small={"t": (1, 7, 33), "d": (1, 9, 32)},
            scalars={"scale": (0.1, 0.125)},
            twin=twins.attention,
            flops=lambda d: 2 * d["t"] * d["t"] * d["d"],
        ),
        Op(
            name="kda",
            level=4,
            text=(
                "Kimi Delta Attention of one head over t tokens: S (k x v, zeros at first) <- Diag(exp(g[t])) S; "
                "S <- S + beta[t] * k[t] (v[t] - k[t]^T S)^T; o[t] = scale * S^T q[t]"
            ),
            arrays=(
                _x("q", "t", "dk", low=-0.2, high=0.2, wild=False),
                _x("k", "t", "dk", low=-0.2, high=0.2, wild=False),
                _x("v", "t", "dv"),
                _x("g", "t", "dk", low=-0.5, high=0.0, wild=False),
                _x("beta", "t", low=0.0, high=1.0, wild=False),
                _y("o", "t", "dv"),
            ),
            dims={"t": (60, 120, 1), "dk": (32, 64, 16), "dv": (32, 64, 16)},
            small={"t": (1, 7, 33), "dk": (1, 9, 32), "dv": (1, 9, 40)},
            scalars={"scale": (0.125, 1.0)},
            twin=twins.kda,
            flops=lambda d: 7 * d["t"] * d["dk"] * d["dv"],
            tolerance=3e-5,
        ),
    )
}

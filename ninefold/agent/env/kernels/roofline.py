"""The bound that no kernel can pass: how fast one thread of this machine moves bytes and multiplies, measured.

Both are the best of many windows, taken by the driver that times candidates; bytes are those of arrays that lie in the second
cache, since a candidate's may. They are kept in the user's cache, one file for each kind of processor, measured again where
that is a day old, and only ever raised: a busy hour does not lower what the machine can do.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from weakref import WeakKeyDictionary

from ninefold.agent.env.kernels import build, measure
from ninefold.agent.env.kernels.ops import Argument, Kernel, Op, twins
from ninefold.core.protocols import SandboxRuntime

FRESH_SECONDS = 86_400.0
_FLOATS, _PASSES = 32_768, 200
"""Of each array of the stream: 128 KiB; and how often it is copied in a window."""
_MULTIPLIES = 100_000
_FLOPS = 2 * 12 * 16 * _MULTIPLIES
"""Of one window of multiply.c."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """Of one thread."""

    bandwidth: float
    """Bytes read and written per second."""
    flops: float
    """Floating-point operations in single precision per second."""

    def seconds(self, kernel: Kernel) -> float:
        """Less than any implementation can take for one call."""
        return max(kernel.op.traffic(kernel.dims) / self.bandwidth, kernel.op.flops(kernel.dims) / self.flops)


def _probe(name: str, text: str, dims: Mapping[str, int]) -> Kernel:
    arrays = (Argument(name="x", shape=("n",), low=0.0, high=0.5), Argument(name="y", shape=("n",), output=True))
    op = Op(
        name=name,
        level=0,
        text=text,
        arrays=arrays,
        dims={dim: (size, size, 1) for dim, size in dims.items()},
        small={},
        scalars={},
        twin=twins.copy,
        flops=lambda _: 0.0,
        calls=1,
    )
    return Kernel(op=op, dims=dims, scalars={})


STREAM = _probe("stream", "copies x to y many times", {"n": _FLOATS, "times": _PASSES})
MULTIPLY = _probe("multiply", "multiplies and adds many times", {"n": 192, "times": _MULTIPLIES})

_known: WeakKeyDictionary[SandboxRuntime, Roofline] = WeakKeyDictionary()


def roofline(runtime: SandboxRuntime) -> Roofline:
    """This machine's, from the cache, or measured now. Raises SandboxError."""
    if runtime not in _known:
        path = _path()
        old = _read(path)
        if old is None or time.clock_gettime(time.CLOCK_REALTIME) - path.stat().st_mtime > FRESH_SECONDS:
            old = _best(measured(runtime), old)
            # A judge may read the cache and not write to it.
            with suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                part = path.with_suffix(f".{secrets.token_hex(4)}")
                part.write_text(json.dumps(asdict(old)))
                part.replace(path)
        _known[runtime] = old
    return _known[runtime]


def measured(runtime: SandboxRuntime) -> Roofline:
    """By the driver, now. Raises SandboxError."""
    return Roofline(bandwidth=2 * 4 * _FLOATS * _PASSES / _least(runtime, STREAM), flops=_FLOPS / _least(runtime, MULTIPLY))


def _least(runtime: SandboxRuntime, kernel: Kernel) -> float:
    """Seconds of its quickest window."""
    probe = measure.in_c(runtime, kernel.op, build.inside(f"{kernel.op.name}.c"))
    rounds = measure.against(runtime, kernel, probe, probe).rounds
    return min(min(r.candidate, r.expert) for r in rounds) * 1e-9


def _best(new: Roofline, old: Roofline | None) -> Roofline:
    if old is None:
        return new
    return Roofline(bandwidth=max(new.bandwidth, old.bandwidth), flops=max(new.flops, old.flops))


def _path() -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "ninefold" / f"roofline-{hashlib.sha256(_processor().encode()).hexdigest()[:16]}.json"


def _processor() -> str:
    """The processor's name and abilities, and what the compiler makes of them."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))}))
    return f"{platform.machine()} {platform.processor()}"


def _read(path: Path) -> Roofline | None:
    """None where nobody has measured."""
    try:
        return Roofline(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None

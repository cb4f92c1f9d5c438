"""Compiling C in the sandbox, with the machine's compiler and without a network."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from weakref import WeakKeyDictionary

from ninefold.core.errors import SandboxError, UserError
from ninefold.core.protocols import ExecLimits, SandboxRuntime

FLAGS = ("-O3", "-march=native", "-std=gnu11", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math")
LIMITS = ExecLimits(seconds=60.0, memory_mb=1024, output_bytes=1 << 20, processes=16)
"""Of a compilation; on a busy machine one that takes a tenth of a second may wait for many."""
KEPT = 64
"""Libraries of a runtime that are not compiled again."""

_INSIDE = Path(__file__).with_name("inside")
_SOLUTIONS = Path(__file__).with_name("solutions")

# A demonstrator, gold and the expert hand in the same few sources again and again.
_built: WeakKeyDictionary[SandboxRuntime, dict[str, bytes]] = WeakKeyDictionary()


class BuildFailed(Exception):
    """The compiler refused the source; the message is what it said first."""


@cache
def inside(name: str) -> str:
    """A source of ours that runs in the sandbox."""
    return (_INSIDE / name).read_text()


@cache
def solution(op: str, name: str) -> str:
    """The C source of an operation: naive, good or expert."""
    return (_SOLUTIONS / op / f"{name}.c").read_text()


def library(runtime: SandboxRuntime, sources: Mapping[str, str]) -> bytes:
    """A shared library of C sources, in their order. Raises BuildFailed."""
    return _build(runtime, sources, ("-shared", "-fPIC"))


def program(runtime: SandboxRuntime, sources: Mapping[str, str]) -> bytes:
    """An executable of C sources. Raises BuildFailed."""
    return _build(runtime, sources, ())


def _build(runtime: SandboxRuntime, sources: Mapping[str, str], kind: tuple[str, ...]) -> bytes:
    kept = _built.setdefault(runtime, {})
    key = hashlib.sha256(repr((sorted(sources.items()), kind)).encode()).hexdigest()
    if key not in kept:
        if len(kept) >= KEPT:
            del kept[next(iter(kept))]
        kept[key] = _compiled(runtime, sources, kind)
    return kept[key]


def _compiled(runtime: SandboxRuntime, sources: Mapping[str, str], kind: tuple[str, ...]) -> bytes:
    with closing(runtime.create(sources)) as sandbox:
        ended = sandbox.run(["cc", *FLAGS, *kind, "-o", "built", *sources, "-lm", "-ldl"], limits=LIMITS)
        if ended.reason == "timeout":
            raise SandboxError("the compiler did not end in time")
        if ended.exit_code == 127:
            raise SandboxError("the sandbox has no C compiler (cc)")
        if ended.exit_code != 0:
            said = [line for line in ended.stderr.splitlines() if "error" in line] or [ended.stderr.strip() or ended.reason]
            raise BuildFailed(said[0][:300])
        try:
            return sandbox.read("built")
        except (OSError, UserError) as error:
            raise BuildFailed(f"nothing was built: {error}") from None

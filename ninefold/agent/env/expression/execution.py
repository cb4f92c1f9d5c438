"""Running a candidate in the sandbox and bringing back plain integers.

The expected values never enter the sandbox: a candidate may print, exit, patch or forge what it likes, but to match
them it has to compute them. Comparison happens outside, on integers parsed from text.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from contextlib import closing

from ninefold.core.protocols import ExecLimits, SandboxRuntime

LONGEST = 2_000
"""Characters of a candidate that is executed at all."""

LIMITS = ExecLimits(seconds=2.0, memory_mb=128, output_bytes=16_384, processes=8, files_mb=4)

_EXPRESSION = re.compile(r"\d\*\d[+-]\d", re.ASCII)
_INTEGER = re.compile(r"-?\d{1,30}", re.ASCII)

_DRIVER = """
def drive(source, inputs, nonce):
    import sys
    write, kind, text = sys.stdout.write, type, str
    space = {"__name__": "candidate"}
    exec(compile(source, "candidate", "exec"), space)
    values = [space["f"](x) for x in inputs]
    if all(kind(value) is int for value in values):
        write("\\n" + nonce + " " + " ".join(map(text, values)) + "\\n")
"""


def expression_value(runtime: SandboxRuntime, candidate: str) -> int | None:
    """Value of `a*b+c` or `a*b-c` of single digits, executed in a fresh sandbox; None where it has not that form."""
    candidate = candidate.strip()
    if not _EXPRESSION.fullmatch(candidate):
        return None
    with closing(runtime.create()) as sandbox:
        printed = sandbox.python(f"print({candidate})", limits=LIMITS).stdout.strip()
    return int(printed) if _INTEGER.fullmatch(printed) else None


def function_values(runtime: SandboxRuntime, candidate: str, inputs: Sequence[int]) -> tuple[int, ...] | None:
    """f(x) for each input, where the candidate defines f; None where it raises, exits, overruns or returns no integers."""
    if not candidate.strip() or len(candidate) > LONGEST:
        return None
    nonce = secrets.token_hex(16)
    program = f"{_DRIVER}\ndrive({candidate!r}, {list(inputs)!r}, {nonce!r})\n"
    with closing(runtime.create()) as sandbox:
        result = sandbox.python(program, limits=LIMITS)
    reports = [line for line in result.stdout.splitlines() if line.startswith(nonce)]
    if result.reason != "exited" or result.exit_code != 0 or len(reports) != 1:
        return None
    values = reports[0].split()[1:]
    if len(values) != len(inputs) or not all(_INTEGER.fullmatch(value) for value in values):
        return None
    return tuple(map(int, values))

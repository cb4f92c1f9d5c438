"""Executing what was submitted, and what of it is accepted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing

from ninefold.agent.env import candidate
from ninefold.core.protocols import SandboxRuntime

LONGEST = 2_000
"""Characters of a function that is executed at all."""

_EXPRESSION = re.compile(r"\d\*\d[+-]\d", re.ASCII)
_INTEGER = re.compile(r"-?\d{1,4}", re.ASCII)


def expression_value(runtime: SandboxRuntime, code: str) -> int | None:
    """Value of `a*b+c` or `a*b-c` of single digits, executed in a fresh sandbox; None where it has not that form."""
    code = code.strip()
    if not _EXPRESSION.fullmatch(code):
        return None
    with closing(runtime.create()) as sandbox:
        printed = sandbox.python(f"print({code})", limits=candidate.LIMITS).stdout.strip()
    return int(printed) if _INTEGER.fullmatch(printed) else None


def function_fits(runtime: SandboxRuntime, code: str, inputs: Sequence[int], outputs: Sequence[int]) -> bool:
    """Whether the function f of one argument that `code` defines maps each input to its output."""
    if len(code) > LONGEST:
        return False
    calls = [[x] for x in inputs]
    return candidate.agree(candidate.results(runtime, {"submitted.py": code}, "submitted", "f", calls), outputs)

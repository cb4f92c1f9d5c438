"""Executing what was submitted, and what of it is accepted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from weakref import WeakKeyDictionary

from ninefold.agent.env import candidate
from ninefold.core.errors import SandboxError
from ninefold.core.protocols import ExecLimits, SandboxRuntime

LONGEST = 2_000
"""Characters of a function that is executed at all."""

_EXPRESSION = re.compile(r"\d\*\d[+-]\d", re.ASCII)
_INTEGER = re.compile(r"-?\d{1,4}", re.ASCII)

# Five characters of arithmetic have one value wherever they run, so none is executed twice: a rollout asks for the same
# few hundred expressions tens of thousands of times.
_executed: WeakKeyDictionary[SandboxRuntime, dict[str, int]] = WeakKeyDictionary()


def expression_value(runtime: SandboxRuntime, code: str) -> int | None:
    """Value of `a*b+c` or `a*b-c` of single digits, executed in a fresh sandbox; None where it has not that form.

    Raises SandboxError where the sandbox does not manage even that.
    """
    code = code.strip()
    if not _EXPRESSION.fullmatch(code):
        return None
    known = _executed.setdefault(runtime, {})
    if code not in known:
        with closing(runtime.create()) as sandbox:
            ended = sandbox.python(f"print({code})", limits=candidate.LIMITS)
        if not _INTEGER.fullmatch(ended.stdout.strip()):
            raise SandboxError(f"the sandbox did not evaluate {code}: {ended.reason} {ended.stderr[-200:]}")
        known[code] = int(ended.stdout)
    return known[code]


def function_fits(
    runtime: SandboxRuntime, code: str, inputs: Sequence[int], outputs: Sequence[int], limits: ExecLimits = candidate.LIMITS
) -> bool:
    """Whether the function f of one argument that `code` defines maps each input to its output."""
    if len(code) > LONGEST:
        return False
    calls = [[x] for x in inputs]
    return candidate.agree(candidate.results(runtime, {"submitted.py": code}, "submitted", "f", calls, limits), outputs)

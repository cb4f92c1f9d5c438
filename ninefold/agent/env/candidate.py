"""Running a candidate's function in the sandbox and bringing back what it returns, as text.

The expected results never enter the sandbox: a candidate may print, exit, patch or forge what it likes, but to match
them it has to compute them. Comparison happens outside, on JSON text, so no object of the candidate takes part in it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from ninefold.core.protocols import ExecLimits, SandboxRuntime
from ninefold.core.types import Task

LIMITS = ExecLimits(seconds=2.0, memory_mb=128, output_bytes=65_536, processes=8, files_mb=4)
"""Of a verifier's execution."""


def tool_limits(task: Task) -> ExecLimits:
    """Of what a tool of the task runs."""
    return replace(LIMITS, seconds=task.limits.tool_seconds)


_DRIVER = """
def drive(module, function, calls, nonce):
    import json, os, sys
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.getcwd())
    write, dumps = sys.stdout.write, json.dumps
    candidate = getattr(__import__(module), function)
    results = [dumps(candidate(*arguments)) for arguments in calls]
    write("\\n" + nonce + dumps(results) + "\\n")
"""


def results(
    runtime: SandboxRuntime,
    files: Mapping[str, str],
    module: str,
    function: str,
    calls: Sequence[Sequence[Any]],
    limits: ExecLimits = LIMITS,
) -> list[str] | None:
    """JSON text of `module.function(*arguments)` for each call, run in a fresh sandbox that holds `files` and nothing else.

    None where the candidate raises, exits, overruns, or returns what JSON cannot say. The nonce only tells the report
    from other output; a candidate that finds it gains nothing by it.
    """
    nonce = secrets.token_hex(16)
    program = f"{_DRIVER}\ndrive({module!r}, {function!r}, {[list(call) for call in calls]!r}, {nonce!r})\n"
    with closing(runtime.create(files)) as sandbox:
        ended = sandbox.python(program, limits=limits)
    reports = [line.removeprefix(nonce) for line in ended.stdout.splitlines() if line.startswith(nonce)]
    if ended.reason != "exited" or ended.exit_code != 0 or len(reports) != 1:
        return None
    try:
        report = json.loads(reports[0])
    except (ValueError, RecursionError):
        return None
    return report if isinstance(report, list) and len(report) == len(calls) else None


def agree(report: Sequence[Any] | None, expected: Sequence[Any]) -> bool:
    """Whether a report says exactly what was expected; 1, 1.0 and True are three different results."""
    return report is not None and list(report) == [json.dumps(value) for value in expected]

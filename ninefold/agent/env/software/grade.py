"""Grading in fresh sandboxes: hidden calls first, then the public tests as they were.

What hidden calls ought to return never enters the sandbox, and is compared outside as text: a repository may exit, patch, print
or forge what it likes, but to match it has to compute. The public tests run beside what they test, so their report could be
forged; it can only take away what the hidden calls gave. Of the agent's files those of the package come in and nothing else:
no test, `conftest.py`, `sitecustomize.py` or module of a library's name.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from ninefold.agent.env import candidate
from ninefold.agent.env.software.sources import Case
from ninefold.core.protocols import SandboxRuntime

LIMITS = replace(candidate.LIMITS, seconds=10.0, output_bytes=1 << 20)
"""Of each run, which takes a tenth of a second or so where nothing else runs."""
_GRADER = "grader_of_hidden_calls"
_CALL = """
import importlib

def call(module, function, arguments):
    try:
        return getattr(importlib.import_module(module), function)(*arguments)
    except Exception as error:
        return ["raised", type(error).__name__]
"""
_SUITE = """
def drive(ids, nonce):
    import json, os, sys, unittest
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.getcwd())
    write, dumps, load, new = sys.stdout.write, json.dumps, unittest.TestLoader().loadTestsFromName, unittest.TestResult
    report = []
    for id in ids:
        result = new()
        load(id).run(result)
        report.append([id, result.testsRun, result.wasSuccessful() and not result.skipped])
    write("\\n" + nonce + dumps(report) + "\\n")
"""


def outcomes(runtime: SandboxRuntime, files: Mapping[str, str], cases: Sequence[Case]) -> list[str] | None:
    """JSON text of what each call returns or raises; None where all of it does not come to an end. Raises SandboxError."""
    calls = [list(case) for case in cases]
    return candidate.results(runtime, {**files, f"{_GRADER}.py": _CALL}, _GRADER, "call", calls, LIMITS)


def failing(runtime: SandboxRuntime, files: Mapping[str, str], ids: Sequence[str]) -> list[str] | None:
    """Which of these tests do not pass, each run once; None where the report is not of just these. Raises SandboxError."""
    nonce = secrets.token_hex(16)
    with closing(runtime.create(files)) as sandbox:
        ended = sandbox.python(f"{_SUITE}\ndrive({list(ids)!r}, {nonce!r})\n", limits=LIMITS)
    reports = [line.removeprefix(nonce) for line in ended.stdout.splitlines() if line.startswith(nonce)]
    if ended.reason != "exited" or ended.exit_code != 0 or len(reports) != 1:
        return None
    return _failing(reports[0], ids)


def _failing(text: str, ids: Sequence[str]) -> list[str] | None:
    try:
        report: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(report, list) or len(report) != len(ids):
        return None
    return [id for id, entry in zip(ids, report) if entry != [id, 1, True]]

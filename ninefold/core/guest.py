"""Programs of other interpreters, asked a line at a time: what third-party code needs, ours need not have.

Both sides of it. A program's side imports nothing but the standard library and this room's errors.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import ninefold
from ninefold.core.errors import NinefoldError, SandboxError, UserError, boundary


class Guest:
    """A running program. It reads one JSON object a line and answers each with one: `{"told": …}` or `{"error": text}`."""

    def __init__(
        self, python: Path, program: str, *arguments: str, at: Path | None = None, modules: Sequence[str] = ()
    ) -> None:
        """Run a file of ours, which ends in `serve`, in another interpreter, in the folder `at`; it and the programs that it
        starts find ninefold, and what lies in the folders `modules`. Raises SandboxError where that cannot be."""
        self._lock = Lock()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(ninefold.__file__).parents[1]), *modules])}
        with boundary(SandboxError, f"{python} cannot be started"):
            self._process = subprocess.Popen(
                [python, program, *arguments],
                env=environment,
                cwd=at,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, what: str, /, **given: Any) -> Any:
        """The answer. Raises UserError with what the program says is wrong, SandboxError where it has ended."""
        with self._lock:
            line = ""
            with boundary(SandboxError, "a guest program cannot be asked"):
                assert self._process.stdin is not None
                assert self._process.stdout is not None
                print(json.dumps({"what": what, **given}), file=self._process.stdin, flush=True)
                line = self._process.stdout.readline()
        if not line:
            raise SandboxError(f"the guest program ended with status {self._process.wait()} when asked for {what}")
        answer = json.loads(line)
        if "error" in answer:
            raise UserError(answer["error"])
        return answer["told"]

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


def serve(host: object) -> None:
    """Answer each line by the method of `host` that it names, until nothing more is asked."""
    # What third-party code prints is not for whoever asks.
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        given = json.loads(line)
        problems: list[NinefoldError] = []
        answer: dict[str, Any] = {}
        with boundary(UserError, given["what"], catch=problems.append):
            answer = {"told": getattr(host, given.pop("what"))(**given)}
        print(json.dumps(answer if not problems else {"error": str(problems[0])}), file=answers, flush=True)

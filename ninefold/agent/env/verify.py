"""Verification in a fresh process that no policy could touch."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any

import ninefold
from ninefold.agent.env import place_of
from ninefold.core.errors import VerifierError
from ninefold.core.records import task_record
from ninefold.core.types import Result, Task
from ninefold.sandbox.runtime import RuntimeKind

_START = """
import sys
sys.path.insert(0, sys.argv[1])
from ninefold.agent.env.judge import main
main(sys.argv[2], int(sys.argv[3]))
"""


class FreshVerifier:
    """Judges final states in children of a clean process: nothing that ran here can change a verdict.

    A verifier that raises, dies or overruns gives an invalid result. Safe to call from several threads; close it, or use it
    as a context manager.
    """

    def __init__(self, *, isolation: RuntimeKind = "namespace", seconds: float = 30.0) -> None:
        """`isolation` names the sandbox runtime for families that run candidate code; `seconds` bounds each verification."""
        self._isolation: RuntimeKind = isolation
        self._seconds = seconds
        self._lock = Lock()
        self._judge: _Judge | None = None

    def __call__(self, task: Task, final: Mapping[str, Any]) -> Result:
        return self.verify_many([(task, final)])[0]

    def verify_many(self, items: Sequence[tuple[Task, Mapping[str, Any]]]) -> list[Result]:
        """A verdict for each, in order; all are judged by one fresh process."""
        if not items:
            return []
        families = {task.family: place_of(task.family) for task, _ in items}
        judged = [[task_record(task), final] for task, final in items]
        request = json.dumps({"seconds": self._seconds, "families": families, "items": judged})
        with self._lock:
            answer = self._ask(request)
        return [Result(status=status, score=score, detail=detail) for status, score, detail in json.loads(answer)]

    def close(self) -> None:
        """End the judge."""
        with self._lock:
            self._stop()

    def __enter__(self) -> FreshVerifier:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _ask(self, request: str) -> str:
        """The judge's answer; a judge that was killed since the last question is replaced once."""
        for _ in range(2):
            if self._judge is None:
                self._judge = _Judge(self._isolation)
            with suppress(ConnectionError):
                print(request, file=self._judge.stream, flush=True)
                answer = self._judge.stream.readline()
                if answer.endswith("\n"):
                    return answer
            self._stop()
        raise VerifierError("the judge process ended twice without a verdict; is the machine out of memory?")

    def _stop(self) -> None:
        if self._judge is not None:
            self._judge.close()
            self._judge = None


class _Judge:
    """The judge's process and the socket to it."""

    def __init__(self, isolation: RuntimeKind) -> None:
        ours, theirs = socket.socketpair()
        # -I keeps the working directory, its modules and PYTHON* variables out of the judge.
        command = [sys.executable, "-I", "-c", _START, str(Path(ninefold.__file__).parents[1]), isolation, str(theirs.fileno())]
        # A session of its own: Ctrl-C is for us to handle, the judge ends when the socket does.
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True
        )
        theirs.close()
        self.stream = ours.makefile("rw")
        ours.close()

    def close(self) -> None:
        with suppress(ConnectionError):
            self.stream.close()
        self.process.wait()

"""Verification in a fresh process that no policy could touch."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any

import ninefold
from ninefold.agent.env import place_of
from ninefold.agent.env.verdict import new_nonce, opened
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


_GRACE = 1.0
"""Seconds beyond its deadline after which a judge is thought to hang itself."""


class FreshVerifier:
    """Judges final states in children of a clean process: nothing that ran here can change a verdict.

    A verifier that raises, dies or overruns gives an invalid result, and so does a verdict that is not signed for its task.
    Safe to call from several threads; close it, or use it as a context manager.
    """

    def __init__(self, *, isolation: RuntimeKind = "namespace", seconds: float = 30.0) -> None:
        """`isolation` names the sandbox runtime for families that run candidate code; `seconds` bounds each verification."""
        self._isolation: RuntimeKind = isolation
        self._seconds = seconds
        self._lock = Lock()
        self._judge: _Judge | None = None

    def __call__(self, task: Task, final: Mapping[str, Any]) -> Result:
        return self.verify_many([(task, final)])[0]

    def verify_many(self, items: Sequence[tuple[Task, Mapping[str, Any]]], *, within: float | None = None) -> list[Result]:
        """A verdict for each, in order; all are judged by one fresh process.

        `within` so many seconds all of it ends, where given: what is not judged by then is invalid, and says so.
        """
        results: dict[int, Result] = {}
        deadline = None if within is None else time.monotonic() + within
        with self._lock:
            # A judge that was killed, since the last question or in the middle of this one, is replaced once.
            for _ in range(2):
                left = [place for place in range(len(items)) if place not in results]
                if left:
                    self._ask(items, left, results, deadline)
        if within is None and len(results) < len(items):
            raise VerifierError("the judge process ended twice without a verdict; is the machine out of memory?")
        late = Result(status="invalid", detail="the judge did not answer by the batch's deadline")
        return [results.get(place, late) for place in range(len(items))]

    def close(self) -> None:
        """End the judge."""
        with self._lock:
            self._stop()

    def __enter__(self) -> FreshVerifier:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _ask(
        self,
        items: Sequence[tuple[Task, Mapping[str, Any]]],
        left: list[int],
        results: dict[int, Result],
        deadline: float | None,
    ) -> None:
        """Fill in the verdicts on the items `left`, as many as come."""
        nonce = new_nonce()
        records = [[task_record(task), final] for task, final in (items[place] for place in left)]
        if self._judge is None:
            self._judge = _Judge(self._isolation)
        with suppress(ConnectionError, TimeoutError):
            ask = {"nonce": nonce, "seconds": self._seconds, "until": deadline, "places": left, "items": records}
            ask["families"] = {items[place][0].family: place_of(items[place][0].family) for place in left}
            self._judge.wait_at_most(None if deadline is None else max(0.0, deadline - time.monotonic()) + _GRACE)
            print(json.dumps(ask), file=self._judge.stream, flush=True)
            for _ in left:
                index, _, verdict = self._judge.stream.readline().rstrip("\n").partition(" ")
                if not verdict:
                    break
                place = left[int(index)]
                result = opened(json.loads(verdict), nonce=nonce, place=place, task=items[place][0].id)
                results[place] = result or Result(status="invalid", detail="a verdict came that is not signed for this task")
            else:
                return
        self._stop()

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
        self._socket = ours
        self.stream = ours.makefile("rw")

    def wait_at_most(self, seconds: float | None) -> None:
        """Bound of each wait for it from here on; None: none."""
        self._socket.settimeout(seconds)

    def close(self) -> None:
        self._socket.close()
        with suppress(ConnectionError, TimeoutError):
            self.stream.close()
        try:
            self.process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

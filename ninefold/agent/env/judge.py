"""The judge: a clean process that forks a fresh child for each batch of verifications.

It reads one JSON line a batch from a socket and writes one line of verdicts back. It imports nothing but the families, so it
forks quickly, and it ends when the other end of the socket is closed.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from ninefold.agent.env import family
from ninefold.core.errors import NinefoldError, VerifierError, boundary
from ninefold.core.protocols import SandboxRuntime
from ninefold.core.records import task_of
from ninefold.core.types import Result
from ninefold.sandbox.runtime import RuntimeKind, open_runtime

Item = tuple[dict[str, Any], dict[str, Any]]
"""A task's record and the final state to be judged."""


class Judge:
    """Judges batches in forked children; a child that dies or overruns costs only the item that it was at."""

    def __init__(self, isolation: RuntimeKind) -> None:
        self._isolation: RuntimeKind = isolation
        self._runtime: SandboxRuntime | None = None

    def batch(self, items: Sequence[Item], seconds: float, families: Mapping[str, str]) -> list[Result]:
        """A verdict for each item, in order; `seconds` bounds each of them, `families` says where each family is found."""
        results: list[Result] = []
        while len(results) < len(items):
            problems = self._prepare(families)
            results += self._child(items[len(results) :], seconds, problems)
        return results

    def close(self) -> None:
        """End the sandbox runtime, if one was opened."""
        if self._runtime is not None:
            self._runtime.close()
            self._runtime = None

    def _prepare(self, families: Mapping[str, str]) -> dict[str, str]:
        """Import families and open the runtime once, for all children to inherit; family → why it cannot be judged."""
        problems: dict[str, str] = {}
        for name, place in families.items():
            caught: list[NinefoldError] = []
            with boundary(VerifierError, "the judge cannot start", catch=caught.append):
                if family(place).isolated and self._runtime is None:
                    self._runtime = _open(self._isolation)
            if caught:
                problems[name] = str(caught[0])
        gc.freeze()
        return problems

    def _child(self, items: Sequence[Item], seconds: float, problems: Mapping[str, str]) -> list[Result]:
        """Verdicts of one child: at least one, fewer than all where it ended early."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _judge(items, writing, problems, self._runtime)
        os.close(writing)
        try:
            results, overran = _collect(reading, len(items), seconds)
        finally:
            os.close(reading)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        if len(results) < len(items):
            # Its conversation with the runtime may have been cut in the middle.
            self.close()
            problem = f"the verifier took more than {seconds:g} s" if overran else "the verifier's process died"
            results.append(Result(status="invalid", detail=problem))
        return results


def _open(kind: RuntimeKind) -> SandboxRuntime:
    runtime = open_runtime(kind)
    runtime.check()
    return runtime


def _judge(items: Sequence[Item], writing: int, problems: Mapping[str, str], runtime: SandboxRuntime | None) -> NoReturn:
    """What the child does: one line a verdict, then exit without clean-up of what it shares with its parent."""
    try:
        with os.fdopen(writing, "w", buffering=1) as out:
            for task, final in items:
                problem = problems.get(task["family"])
                result = _verdict(task, final, runtime) if problem is None else Result(status="invalid", detail=problem)
                print(json.dumps(_plain(result)), file=out)
    finally:
        os._exit(0)


def _verdict(task: dict[str, Any], final: dict[str, Any], runtime: SandboxRuntime | None) -> Result:
    problems: list[NinefoldError] = []
    with boundary(VerifierError, f"the verifier of {task['family']} broke", catch=problems.append):
        result = family(task["family"]).verify(task_of(task), final, runtime=runtime)
        if not (result.status in ("pass", "fail", "invalid") and 0.0 <= result.score <= 1.0):
            raise VerifierError(f"not a verdict: {result}")
        return result
    return Result(status="invalid", detail=str(problems[0])[:500])


def _collect(reading: int, count: int, seconds: float) -> tuple[list[Result], bool]:
    """(verdicts that came, whether the next one overran): up to `count`, each within `seconds` of the last."""
    results: list[Result] = []
    buffer = b""
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(reading, selectors.EVENT_READ)
        while len(results) < count:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                return results, True
            data = os.read(reading, 1 << 16)
            if not data:
                break
            *lines, buffer = (buffer + data).split(b"\n")
            results += [Result(status=status, score=score, detail=detail) for status, score, detail in map(json.loads, lines)]
            deadline = time.monotonic() + seconds if lines else deadline
    return results, False


def _plain(result: Result) -> list[Any]:
    return [result.status, result.score, result.detail]


def main(isolation: RuntimeKind, descriptor: int) -> None:
    """Serve batches over the socket `descriptor` until its other end is closed."""
    judge = Judge(isolation)
    with socket.socket(fileno=descriptor) as peer, peer.makefile("rw") as stream:
        for line in stream:
            request = json.loads(line)
            results = judge.batch(request["items"], request["seconds"], request["families"])
            print(json.dumps([_plain(result) for result in results]), file=stream, flush=True)
    judge.close()

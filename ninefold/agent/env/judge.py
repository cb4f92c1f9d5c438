"""The judge: a clean, secluded process that forks a fresh child for the verifications of each request.

It reads one JSON line a request from a socket and writes one line a verdict back, as they come. It imports nothing but the
families, so it forks quickly, and it ends when the other end of the socket is closed. It has no network and changes no file;
each child is the first of a process tree that dies as a whole. Where the kernel refuses that, families that run untrusted code
are refused too (their sandboxes need the same), and the others, which only compare, are judged without it.
"""

from __future__ import annotations

import gc
import json
import math
import os
import selectors
import signal
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from ninefold.agent.env import family
from ninefold.agent.env.verdict import opened, signed, sound
from ninefold.core.errors import NinefoldError, VerifierError, boundary
from ninefold.core.protocols import SandboxRuntime
from ninefold.core.records import task_of
from ninefold.core.types import Result
from ninefold.sandbox.runtime import RuntimeKind, open_runtime
from ninefold.sandbox.seclusion import Seclusion

PATIENCE = 1.0
"""Seconds that a verification gets at first where all of them have to end together; those that need more come again at the
end, with four times as long each time, so that one that hangs keeps nobody else from being judged. [ours]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request."""

    nonce: str
    """Signs its verdicts."""
    seconds: float
    """Bound of each verification."""
    until: float | None = None
    """The moment on this machine's monotonic clock by which all of them have to end; None: no such bound."""
    families: Mapping[str, str]
    """Where each family of them is found (`env.place_of`)."""
    places: tuple[int, ...]
    """Number of each item, which its verdict is signed for."""
    items: tuple[tuple[dict[str, Any], dict[str, Any]], ...]
    """The record of each task, and the final state to be judged."""


class Judge:
    """Judges in forked children; a child that dies, overruns or breaks the rules costs only the item that it was at."""

    def __init__(self, isolation: RuntimeKind, seclusion: Seclusion | None = None) -> None:
        self._isolation: RuntimeKind = isolation
        self._seclusion = seclusion
        self._runtime: SandboxRuntime | None = None

    def verdicts(self, ask: Ask) -> Iterator[tuple[int, Result]]:
        """(index, verdict) of each item, as they come."""
        deadline = math.inf if ask.until is None else ask.until
        patience = ask.seconds if ask.until is None else min(PATIENCE, ask.seconds)
        left = list(range(len(ask.items)))
        slow: list[int] = []
        while left and time.monotonic() < deadline:
            for index, result in self._child(ask, tuple(left), patience, deadline):
                left.pop(0)
                if result is None and (patience < ask.seconds or time.monotonic() >= deadline):
                    slow.append(index)
                else:
                    yield index, result or _invalid(f"the verifier took more than {ask.seconds:g} s")
            if not left and time.monotonic() < deadline:
                left, slow, patience = slow, [], min(4 * patience, ask.seconds)
        culprits = ", ".join(ask.items[index][0]["id"] for index in slow[:3]) or "the many before it"
        for index in slow:
            yield index, _invalid("the batch's deadline passed while the verifier was still at it")
        for index in left:
            yield index, _invalid(f"not judged by the batch's deadline, for which {culprits} took too long")

    def close(self) -> None:
        """End the sandbox runtime, if one was opened."""
        if self._runtime is not None:
            self._runtime.close()
            self._runtime = None

    def _child(self, ask: Ask, chosen: Sequence[int], patience: float, deadline: float) -> Iterator[tuple[int, Result | None]]:
        """Verdicts of one child on the chosen items, in order; at the first that it does not come to the end of, the last:
        None where it took more than `patience` seconds, or the deadline passed."""
        names = sorted({ask.items[index][0]["family"] for index in chosen})
        problems = self._prepare({name: ask.families[name] for name in names})
        reading, writing = os.pipe()
        pid = os.fork() if self._seclusion is None else self._seclusion.fork()
        if pid == 0:
            os.close(reading)
            _judge(ask, chosen, writing, problems, self._runtime)
        os.close(writing)
        whole = False
        try:
            with _Lines(reading) as lines:
                for index in chosen:
                    line = lines.next(min(time.monotonic() + patience, deadline))
                    if line is None:
                        yield index, None
                        return
                    result = _read(ask, index, line)
                    if result is None:
                        yield index, _invalid(_FORGED if line else _DIED)
                        return
                    yield index, result
                whole = True
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            if not whole:
                # Its conversation with the runtime may have been cut in the middle.
                self.close()

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


_DIED = "the verifier's process died"
_FORGED = "what came from the verifier's process was no verdict on this task"


class _Lines:
    """Lines out of a pipe, which it owns, each awaited until its own moment."""

    def __init__(self, reading: int) -> None:
        self._reading = reading
        self._buffer = b""
        self._selector = selectors.DefaultSelector()
        self._selector.register(reading, selectors.EVENT_READ)

    def next(self, until: float) -> bytes | None:
        """The next line; b"" where the other end was closed, None where none came by then."""
        while b"\n" not in self._buffer:
            if not self._selector.select(max(0.0, until - time.monotonic())):
                return None
            data = os.read(self._reading, 1 << 16)
            if not data:
                return b""
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        os.close(self._reading)


def _read(ask: Ask, index: int, line: bytes) -> Result | None:
    """None unless `line` is a verdict on the item, signed for it."""
    with suppress(ValueError, RecursionError):
        return opened(json.loads(line), nonce=ask.nonce, place=ask.places[index], task=ask.items[index][0]["id"])
    return None


def _open(kind: RuntimeKind) -> SandboxRuntime:
    runtime = open_runtime(kind)
    runtime.check()
    return runtime


def _judge(
    ask: Ask, chosen: Sequence[int], writing: int, problems: Mapping[str, str], runtime: SandboxRuntime | None
) -> NoReturn:
    """What the child does: one line a verdict, then exit without clean-up of what it shares with its parent."""
    try:
        with os.fdopen(writing, "w", buffering=1) as out:
            for index in chosen:
                task, final = ask.items[index]
                problem = problems.get(task["family"])
                result = _verdict(task, final, runtime) if problem is None else _invalid(problem)
                print(_line(ask, index, result), file=out)
    finally:
        os._exit(0)


def _verdict(task: dict[str, Any], final: dict[str, Any], runtime: SandboxRuntime | None) -> Result:
    problems: list[NinefoldError] = []
    with boundary(VerifierError, f"the verifier of {task['family']} broke", catch=problems.append):
        result = family(task["family"]).verify(task_of(task), final, runtime=runtime)
        if not sound(result):
            raise VerifierError(f"not a verdict: {result}")
        return result
    return _invalid(str(problems[0])[:500])


def _invalid(detail: str) -> Result:
    return Result(status="invalid", detail=detail)


def _line(ask: Ask, index: int, result: Result) -> str:
    return json.dumps(signed(result, nonce=ask.nonce, place=ask.places[index], task=ask.items[index][0]["id"]))


def main(isolation: RuntimeKind, descriptor: int) -> None:
    """Serve requests over the socket `descriptor` until its other end is closed."""
    os.set_inheritable(descriptor, False)
    seclusion: Seclusion | None = None
    if isolation == "namespace":
        with suppress(OSError):
            seclusion = Seclusion.enter()
    judge = Judge(isolation, seclusion)
    with socket.socket(fileno=descriptor) as peer, peer.makefile("rw") as stream:
        for line in stream:
            ask = Ask(**json.loads(line))
            for index, result in judge.verdicts(ask):
                print(f"{index} {_line(ask, index, result)}", file=stream, flush=True)
    judge.close()

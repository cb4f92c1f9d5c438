"""Our end of the zygote: start it, ask it for sandboxes, run programs and read what they write within limits."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, Literal

from ninefold.core.errors import SandboxError, SandboxUnavailable
from ninefold.core.protocols import ExecLimits, ExecResult
from ninefold.sandbox.advice import advice

_PACKAGE_PARENT = Path(__file__).parents[2]
_START_SECONDS = 30.0
_KILL_SECONDS = 10.0
_ANSWER_SECONDS = 30.0
"""For what it does itself; an execution has limits of its own."""
_MESSAGE_BYTES = 4096
_CHUNK = 65_536
_OUT_OF_MEMORY = ("MemoryError", "OSError: [Errno 12]", "terminate called after throwing an instance of 'std::bad_alloc'")


class Zygote:
    """A running zygote. Its methods may be called from several threads. It ends with `stop`, or with this process."""

    def __init__(self, packages: str | None = None) -> None:
        """Raises SandboxUnavailable with the kernel's own words where namespaces are refused.

        `packages` is a folder of this host to be seen inside as /opt/packages.
        """
        if not sys.platform.startswith("linux"):
            raise SandboxUnavailable(f"cannot isolate programs on {sys.platform}: {advice()}")
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._boxes = itertools.count()
        with theirs:
            self._process = subprocess.Popen(
                [
                    _interpreter(),
                    "-S",
                    "-s",
                    "-P",
                    "-m",
                    "ninefold.sandbox.zygote",
                    str(theirs.fileno()),
                    str(os.getpid()),
                    packages or "",
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={"PYTHONPATH": str(_PACKAGE_PARENT), "PYTHONHASHSEED": "0", "LANG": "C.UTF-8", "PATH": os.defpath},
                cwd="/",
            )
        self._await_start()

    @property
    def alive(self) -> bool:
        """Whether its end of the control socket is open; unlike waiting for a child, a forked process may ask this too."""
        watch = select.poll()
        watch.register(self._control, 0)
        return not watch.poll(0)

    def stop(self) -> None:
        """Every sandbox and process of it is gone when this returns."""
        self._control.close()
        try:
            self._process.wait(_KILL_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stderr:
            self._process.stderr.close()

    def create(self, *, megabytes: int, files: int, beside: int | None = None) -> tuple[int, int]:
        """A new sandbox, with the loopback of sandbox `beside` if given: (number, descriptor of its working directory)."""
        box = next(self._boxes)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs, self._answering(ours):
            message = {"do": "create", "box": box, "megabytes": megabytes, "files": files, "beside": beside}
            self._send(message, theirs.fileno())
            theirs.close()
            data, fds, _, _ = socket.recv_fds(ours, _MESSAGE_BYTES, 1)
        _answer(data)
        return box, fds[0]

    def close(self, box: int) -> None:
        """Forget a sandbox in which nothing runs; its memory is free when this returns."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # A zygote that is gone has forgotten everything.
        with contextlib.suppress(SandboxError), ours, theirs, self._answering(ours):
            self._send({"do": "close", "box": box}, theirs.fileno())
            theirs.close()
            ours.recv(_MESSAGE_BYTES)

    def execute(self, box: int, program: Mapping[str, Any], *, stdin: str, limits: ExecLimits) -> ExecResult:
        """Run `program` ({code} or {argv}); all its processes are dead when this returns. Raises SandboxError."""
        deadline = time.monotonic() + limits.seconds
        request = json.dumps({**program, "limits": asdict(limits)}).encode()
        with ExitStack() as stack:
            files = [_memory_file(stack, data) for data in (request, stdin.encode(errors="surrogateescape"))]
            pipes = [_pipe(stack) for _ in range(2)]
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            stack.enter_context(ours)
            with theirs:
                message = {"do": "execute", "box": box, "memory_mb": limits.memory_mb}
                self._send(message, *files, *(write.fileno() for _, write in pipes), theirs.fileno())
            for _, write in pipes:
                write.close()
            return _Watch(ours, [read.fileno() for read, _ in pipes], limits, deadline).result()

    @contextlib.contextmanager
    def _answering(self, reply: socket.socket) -> Iterator[None]:
        """Within it the zygote answers on `reply` in time, or is ended: everything asked of it later fails at once."""
        reply.settimeout(_ANSWER_SECONDS)
        try:
            yield
        except TimeoutError:
            self._process.kill()
            raise SandboxError(f"the sandbox runtime did not answer in {_ANSWER_SECONDS:g} s, and was ended") from None

    def _send(self, message: Mapping[str, Any], *fds: int) -> None:
        try:
            socket.send_fds(self._control, [json.dumps(message).encode()], fds)
        except OSError as error:
            raise SandboxError(f"the sandbox runtime is gone ({error}); its sandboxes cannot run anything any more") from error

    def _await_start(self) -> None:
        self._control.settimeout(_START_SECONDS)
        try:
            data = self._control.recv(_MESSAGE_BYTES)
        except OSError as error:
            data = json.dumps({"error": str(error)}).encode()
        self._control.settimeout(None)
        answer = json.loads(data) if data else {"error": "it ended at once"}
        if "ready" in answer:
            return
        assert self._process.stderr is not None
        self._process.kill()
        said = self._process.stderr.read().decode(errors="replace").strip().splitlines()
        self.stop()
        detail = answer["error"] if data else f"{answer['error']}: {said[-1] if said else 'without a word'}"
        raise SandboxUnavailable(f"cannot isolate programs on this machine: {detail}; {advice()}")


class _Watch:
    """Reads a running program's output until it ends or passes a limit."""

    def __init__(self, reply: socket.socket, outputs: list[int], limits: ExecLimits, deadline: float) -> None:
        """`outputs` are the ends of pipes to read: stdout, stderr."""
        self._reply = reply
        self._limits = limits
        self._deadline = deadline
        self._kept = {fd: bytearray() for fd in outputs}
        self._room = limits.output_bytes
        self._killed: Literal["timeout", "output"] | None = None

    def result(self) -> ExecResult:
        poll = select.poll()
        for fd in (self._reply.fileno(), *self._kept):
            os.set_blocking(fd, False)
            poll.register(fd, select.POLLIN)
        while True:
            left = self._deadline - time.monotonic()
            if left <= 0:
                self._kill("timeout")
                continue
            for fd, _ in poll.poll(max(1, left * 1000)):
                if fd == self._reply.fileno():
                    return self._finish(_answer(_receive(self._reply)))
                if self._read(fd) == b"":
                    poll.unregister(fd)

    def _kill(self, reason: Literal["timeout", "output"]) -> None:
        """Ask for the end, which must then come soon."""
        if self._killed is not None:
            raise SandboxError("a killed program did not end; is the machine overloaded or out of memory?")
        self._killed = reason
        self._deadline = time.monotonic() + _KILL_SECONDS
        with contextlib.suppress(ConnectionError):  # it ended by itself just now
            self._reply.send(b"kill")

    def _read(self, fd: int) -> bytes | None:
        """Take what is there: None if nothing is, b"" at the end. What goes over the limit is dropped, and kills."""
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return None
        self._kept[fd] += data[: self._room]
        if len(data) > self._room and self._killed is None:
            self._kill("output")
        self._room = max(0, self._room - len(data))
        return data

    def _finish(self, answer: Mapping[str, Any]) -> ExecResult:
        for fd in self._kept:
            while self._read(fd):
                pass
        stdout, stderr = (bytes(kept).decode(errors="replace") for kept in self._kept.values())
        code = os.waitstatus_to_exitcode(answer["status"])
        reason = self._killed
        if code == -signal.SIGKILL and reason is None:
            # Nothing inside can kill the first process of its namespace: it was the CPU limit or the kernel, out of memory.
            reason = "timeout" if answer["cpu"] >= self._limits.seconds and not answer["starved"] else "memory"
        if reason is not None:
            return ExecResult(stdout=stdout, stderr=stderr, exit_code=None, reason=reason)
        code = code if code >= 0 else 128 - code
        starved = code != 0 and stderr.rstrip().rpartition("\n")[2].startswith(_OUT_OF_MEMORY)
        return ExecResult(stdout=stdout, stderr=stderr, exit_code=code, reason="memory" if starved else "exited")


def _answer(data: bytes) -> Mapping[str, Any]:
    if not data:
        raise SandboxError("the sandbox runtime died")
    answer: Mapping[str, Any] = json.loads(data)
    if "error" in answer:
        raise SandboxError(f"the sandbox could not be made or entered: {answer['error']}")
    return answer


def _receive(reply: socket.socket) -> bytes:
    try:
        return reply.recv(_MESSAGE_BYTES)
    except ConnectionResetError:  # the other end hung up before it read our kill; its answer comes after this error
        return reply.recv(_MESSAGE_BYTES)


def _memory_file(stack: ExitStack, data: bytes) -> int:
    fd = os.memfd_create("sandbox")
    stack.callback(os.close, fd)
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _pipe(stack: ExitStack) -> tuple[BinaryIO, BinaryIO]:
    read, write = os.pipe()
    return stack.enter_context(os.fdopen(read, "rb", 0)), stack.enter_context(os.fdopen(write, "wb", 0))


def _interpreter() -> str:
    """The Python of this process without its virtual environment: the sandbox offers the standard library only."""
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))

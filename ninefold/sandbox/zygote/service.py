"""The zygote's loop: makes sandboxes, forks executions, kills them when asked, says how they ended."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ninefold.sandbox import linux
from ninefold.sandbox.zygote.box import Namespaces, create
from ninefold.sandbox.zygote.memory import Census
from ninefold.sandbox.zygote.program import become

_MESSAGE_BYTES = 4096
_CENSUS_SECONDS = 0.1


@dataclass(slots=True, kw_only=True)
class _Execution:
    pid: int
    pidfd: int
    """Readable when the process and, since it is the first of its namespace, all its descendants are dead."""
    reply: socket.socket
    """Anything that arrives here, the end of the connection included, means: kill."""
    memory: int
    """Bytes that all its processes may hold together."""
    starved: bool = False
    """It was killed for going over them."""


class Service:
    """Serves one control socket until its other end is closed or the owner is dead. One thread, no waiting but in poll."""

    def __init__(self, control: socket.socket, owner: int) -> None:
        """`owner` is a pidfd of the process that the sandboxes belong to."""
        self._control = control
        self._owner = owner
        self._home = Namespaces.current()
        self._pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._boxes: dict[int, Namespaces] = {}
        self._poll = select.poll()
        self._watched: dict[int, Callable[[], None]] = {}
        self._running: dict[int, _Execution] = {}
        self._next_census = 0.0

    def serve(self) -> None:
        # First registered is first in every batch: no descriptor number is taken anew while events of its last bearer wait.
        for fd in (self._control.fileno(), self._owner):
            self._poll.register(fd, select.POLLIN)
        while True:
            for fd, _ in self._poll.poll(_CENSUS_SECONDS * 1000 if self._running else None):
                if fd == self._owner:
                    return
                if fd == self._control.fileno():
                    if not self._receive():
                        return
                elif fd in self._watched:
                    self._watched[fd]()
            if self._running and time.monotonic() >= self._next_census:
                self._kill_starved()

    def _receive(self) -> bool:
        data, fds, _, _ = socket.recv_fds(self._control, _MESSAGE_BYTES, 8)
        if not data:
            return False
        message: Mapping[str, Any] = json.loads(data)
        reply = socket.socket(fileno=fds.pop())
        try:
            match message["do"]:
                case "create":
                    self._create(message, reply)
                case "execute":
                    self._execute(message, fds, reply)
                case "close":
                    self._boxes.pop(message["box"]).close()
                    _tell(reply, {"closed": message["box"]})
                case _:
                    raise AssertionError(message)
        except OSError as error:
            _tell(reply, {"error": str(error)})
        finally:
            for fd in fds:
                os.close(fd)
        return True

    def _create(self, message: Mapping[str, Any], reply: socket.socket) -> None:
        beside = None if message["beside"] is None else self._boxes[message["beside"]]
        box, folder = create(self._home, megabytes=message["megabytes"], files=message["files"], beside=beside)
        self._boxes[message["box"]] = box
        _tell(reply, {"created": message["box"]}, folder)
        os.close(folder)

    def _execute(self, message: Mapping[str, Any], fds: list[int], reply: socket.socket) -> None:
        linux.unshare(linux.NEW_PIDS)
        try:
            pid = os.fork()
            if pid == 0:
                become(self._boxes[message["box"]], fds[0], fds[1:], reply)
        finally:
            linux.setns(self._pids, linux.NEW_PIDS)
        execution = _Execution(pid=pid, pidfd=os.pidfd_open(pid), reply=reply, memory=message["memory_mb"] << 20)
        if not self._running:
            self._next_census = time.monotonic() + _CENSUS_SECONDS
        self._running[pid] = execution
        self._watch(execution.pidfd, lambda: self._ended(execution))
        self._watch(reply.fileno(), lambda: self._kill(execution))

    def _kill(self, execution: _Execution) -> None:
        self._unwatch(execution.reply.fileno())
        os.kill(execution.pid, signal.SIGKILL)

    def _kill_starved(self) -> None:
        census = Census()
        for execution in self._running.values():
            if census.exceeds(execution.pid, execution.memory):
                execution.starved = True
                os.kill(execution.pid, signal.SIGKILL)
        self._next_census = time.monotonic() + _CENSUS_SECONDS

    def _ended(self, execution: _Execution) -> None:
        _, status, usage = os.wait4(execution.pid, 0)
        del self._running[execution.pid]
        self._unwatch(execution.pidfd)
        self._unwatch(execution.reply.fileno())
        os.close(execution.pidfd)
        cpu = usage.ru_utime + usage.ru_stime
        _tell(execution.reply, {"status": status, "cpu": cpu, "starved": execution.starved})

    def _watch(self, fd: int, act: Callable[[], None]) -> None:
        self._watched[fd] = act
        self._poll.register(fd, select.POLLIN)

    def _unwatch(self, fd: int) -> None:
        if self._watched.pop(fd, None) is not None:
            self._poll.unregister(fd)


def _tell(reply: socket.socket, message: Mapping[str, Any], *fds: int) -> None:
    """Answer and hang up; a caller who no longer listens needs no answer."""
    with reply:
        try:
            socket.send_fds(reply, [json.dumps(message).encode()], fds)
        except (BrokenPipeError, ConnectionResetError):
            return

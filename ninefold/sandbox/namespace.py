"""The light runtime: Linux namespaces, a working directory in memory, programs forked from one small interpreter.

A sandbox has a file system, network (a loopback alone), processes and IPC of its own. CPU time, processes, disk and the memory
of each process are bounded by the kernel; the memory of all processes of an execution together by a census every 0.1 s, so a
burst may go over it for that long. Memory that no process has mapped (memfd_create) is bounded by the number and size of open
files only.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from ninefold.core.config import Config
from ninefold.core.errors import SandboxError, UserError
from ninefold.core.protocols import ExecLimits, ExecResult, Sandbox
from ninefold.sandbox import probe
from ninefold.sandbox.archive import Entry, pack, unpack
from ninefold.sandbox.control import Zygote
from ninefold.sandbox.layer import Layer

_MIB = 1 << 20
_LEAST_MEMORY_MB = 32


class NamespaceConfig(Config):
    """Bounds of each sandbox of a runtime."""

    disk_mb: int = 64
    """Size of the working directory, which lies in memory; /tmp has the same again."""
    disk_files: int = 4096
    """Files, folders and links in the working directory."""
    export_mb: int = 256
    """Bound of one export or read: files full of holes look larger than the disk."""
    packages: str | None = None
    """A folder of this host with Python packages, which programs see, read-only, as /opt/packages."""


class NamespaceRuntime:
    """Makes namespace sandboxes. Nothing is run before `check` has passed; the first `create` calls it.

    Processes and files of its sandboxes live no longer than this process: there is nothing on disk to sweep.
    """

    def __init__(self, config: NamespaceConfig | None = None) -> None:
        self._config = config or NamespaceConfig()
        self._zygote: Zygote | None = None
        self._lock = threading.Lock()

    def check(self) -> None:
        """Break out of a sandbox in every way we know, and raise SandboxUnavailable if one works or none can be made."""
        with self._lock:
            self._checked()

    def create(self, files: Mapping[str, str] | None = None, *, beside: Sandbox | None = None) -> NamespaceSandbox:
        """Raises UserError where `beside` is no open sandbox of this runtime."""
        sandbox = self._empty(beside)
        for path, text in (files or {}).items():
            sandbox.write(path, text.encode())
        return sandbox

    def restore(self, exported: bytes) -> NamespaceSandbox:
        """Raises UserError where `exported` is no export."""
        entries = unpack(exported)
        sandbox = self._empty()
        sandbox.fill(entries)
        return sandbox

    def close(self) -> None:
        with self._lock:
            if self._zygote is not None:
                self._zygote.stop()
                self._zygote = None

    def _empty(self, beside: Sandbox | None = None) -> NamespaceSandbox:
        with self._lock:
            zygote = self._checked()
            neighbour = None
            if beside is not None:
                neighbour = beside.number(zygote) if isinstance(beside, NamespaceSandbox) else None
                if neighbour is None:
                    raise UserError("a sandbox lies beside an open one of the same runtime")
            return _open(self, zygote, self._config, neighbour)

    def _checked(self) -> Zygote:
        """The running zygote; a dead one took its sandboxes along, and a new one starts from nothing."""
        if self._zygote is None or not self._zygote.alive:
            zygote = Zygote(self._config.packages)
            try:
                sandbox = _open(self, zygote, self._config)
                probe.check(sandbox.python)
                sandbox.close()
            except BaseException:
                zygote.stop()
                raise
            self._zygote = zygote
        return self._zygote


class NamespaceSandbox:
    """One isolated machine. /work is its working directory and all that `export` holds; /tmp goes with the sandbox."""

    def __init__(self, runtime: NamespaceRuntime, zygote: Zygote, box: int, layer: Layer) -> None:
        self._runtime = runtime
        self._zygote = zygote
        self._box = box
        self._layer = layer
        self._open = True

    def run(self, argv: Sequence[str], *, stdin: str = "", limits: ExecLimits | None = None) -> ExecResult:
        """Exit code 127 where there is no such program, 128 + n where signal n ended it."""
        if not argv:
            raise UserError("argv is empty; its first item names the program to run")
        return self._execute({"argv": list(argv)}, stdin, limits)

    def python(self, code: str, *, stdin: str = "", limits: ExecLimits | None = None) -> ExecResult:
        """The program is `__main__` of a forked interpreter with the standard library; /work is importable."""
        return self._execute({"code": code}, stdin, limits)

    def write(self, path: str, data: bytes) -> None:
        self._layer.write(path, data)

    def read(self, path: str) -> bytes:
        return self._layer.read(path)

    def pipe(self, path: str) -> int:
        """A descriptor, for reading and writing without waiting, of a FIFO of the working directory; the caller's to close."""
        return self._layer.pipe(path)

    def export(self) -> bytes:
        """Tar of /work without times and owners. Raises SandboxError over `export_mb`."""
        return pack(self._layer.entries())

    def fork(self) -> NamespaceSandbox:
        return self._runtime.restore(self.export())

    def close(self) -> None:
        if self._open:
            self._open = False
            self._layer.close()
            self._zygote.close(self._box)

    def number(self, zygote: Zygote) -> int | None:
        """What the zygote calls this sandbox; None where it is closed or another's."""
        return self._box if self._open and zygote is self._zygote else None

    def fill(self, entries: Sequence[Entry]) -> None:
        """Put an export's entries into this sandbox, which must be new."""
        self._layer.add(entries)

    def _execute(self, program: Mapping[str, Any], stdin: str, limits: ExecLimits | None) -> ExecResult:
        if not self._open:
            raise SandboxError("the sandbox is closed")
        limits = limits or ExecLimits()
        if limits.memory_mb < _LEAST_MEMORY_MB:
            raise UserError(f"memory_mb is {limits.memory_mb}; the interpreter alone needs {_LEAST_MEMORY_MB}")
        return self._zygote.execute(self._box, program, stdin=stdin, limits=limits)


def _open(runtime: NamespaceRuntime, zygote: Zygote, config: NamespaceConfig, neighbour: int | None = None) -> NamespaceSandbox:
    box, folder = zygote.create(megabytes=config.disk_mb, files=config.disk_files, beside=neighbour)
    return NamespaceSandbox(runtime, zygote, box, Layer(folder, limit_bytes=config.export_mb * _MIB))

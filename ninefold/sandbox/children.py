"""Programs as children of this process, for a verifier that is itself inside a container: bounded, but not isolated.

What is not for a candidate's eyes must not lie in files that it can read, nor in the memory of a process that it can trace;
`keep_to_oneself` sees to the second. No run chooses this runtime: `open_runtime` does not know it.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ninefold.core.protocols import ExecLimits, ExecResult, Sandbox
from ninefold.sandbox import linux
from ninefold.sandbox.archive import Entry, pack, unpack

_NOBODY = 65534


def keep_to_oneself() -> None:
    """No process of the same user can read this one's memory from here on, and orphans below it come to it."""
    linux.hide_memory()
    linux.adopt_orphans()


class ChildRuntime:
    """Makes sandboxes that are folders."""

    def check(self) -> None:
        """Always passes: it promises no isolation."""

    def create(self, files: Mapping[str, str] | None = None, *, beside: Sandbox | None = None) -> ChildSandbox:
        sandbox = ChildSandbox()
        for path, text in (files or {}).items():
            sandbox.write(path, text.encode())
        return sandbox

    def restore(self, exported: bytes) -> ChildSandbox:
        sandbox = ChildSandbox()
        for entry in unpack(exported):
            if entry.kind == "file":
                sandbox.write(entry.path, entry.data)
        return sandbox

    def close(self) -> None:
        """Nothing is left running."""


class ChildSandbox:
    """A folder, and children that run in it; root's run as nobody. What they write names files relative to that folder, which
    nobody outside knows."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp())
        if os.geteuid() == 0:
            os.chown(self._folder, _NOBODY, _NOBODY)

    def run(self, argv: Sequence[str], *, stdin: str = "", limits: ExecLimits | None = None) -> ExecResult:
        """Run a program; it and all that it started are dead when this returns."""
        limits = limits or ExecLimits()
        reason = "exited"
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(stdin.encode(errors="surrogateescape"))
            given.seek(0)
            environment = {"PATH": os.defpath, "HOME": str(self._folder), "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
            child = subprocess.Popen(
                argv, cwd=self._folder, env=environment, stdin=given, stdout=out, stderr=err, preexec_fn=_bound(limits)
            )
            try:
                child.wait(limits.seconds)
            except subprocess.TimeoutExpired:
                reason = "timeout"
            _end_children()
            texts: list[str] = []
            for stream in (out, err):
                stream.seek(0)
                data = stream.read(limits.output_bytes + 1)
                reason = "output" if len(data) > limits.output_bytes else reason
                text = data[: limits.output_bytes].decode(errors="replace")
                texts.append(text.replace(f"{self._folder}/", "").replace(str(self._folder), "."))
        code = child.returncode
        exited = reason == "exited" and code is not None and code >= 0
        return ExecResult(
            stdout=texts[0],
            stderr=texts[1],
            exit_code=code if exited else None,
            reason="memory" if reason == "exited" and not exited else reason,  # pyright: ignore[reportArgumentType]
        )

    def python(self, code: str, *, stdin: str = "", limits: ExecLimits | None = None) -> ExecResult:
        return self.run([sys.executable, "-I", "-c", code], stdin=stdin, limits=limits)

    def write(self, path: str, data: bytes) -> None:
        file = self._folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    def read(self, path: str) -> bytes:
        """Raises FileNotFoundError where no file stands there."""
        try:
            return (self._folder / path).read_bytes()
        except OSError as error:
            raise FileNotFoundError(errno.ENOENT, f"no file of the sandbox ({error.strerror})", path) from None

    def export(self) -> bytes:
        files = (path for path in sorted(self._folder.rglob("*")) if path.is_file() and not path.is_symlink())
        return pack(Entry(path=str(path.relative_to(self._folder)), kind="file", data=path.read_bytes()) for path in files)

    def fork(self) -> ChildSandbox:
        return ChildRuntime().restore(self.export())

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _bound(limits: ExecLimits) -> Callable[[], None]:
    """What a child does before it becomes the program."""

    def apply() -> None:
        os.setsid()
        mib = 1 << 20
        for kind, value in (
            (resource.RLIMIT_AS, (limits.address_mb or limits.memory_mb) * mib),
            (resource.RLIMIT_FSIZE, limits.files_mb * mib),
            (resource.RLIMIT_CPU, int(limits.seconds) + 2),
            (resource.RLIMIT_CORE, 0),
        ):
            resource.setrlimit(kind, (value, value))
        if os.geteuid() == 0:
            os.setgroups([])
            os.setresgid(_NOBODY, _NOBODY, _NOBODY)
            os.setresuid(_NOBODY, _NOBODY, _NOBODY)

    return apply


def _end_children() -> None:
    """Kill every process below this one; whoever lost its parent has come to us."""
    while True:
        children = [int(pid) for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()]
        if not children:
            return
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        for pid in children:
            _reap(pid)


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        return

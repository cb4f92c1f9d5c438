"""A sandbox that executes nothing: files in a dictionary, programs answered by a function. For tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ninefold.core.errors import SandboxError
from ninefold.core.protocols import ExecLimits, ExecResult, Sandbox
from ninefold.sandbox.archive import Entry, layer_path, pack, unpack


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """What a script is asked to play."""

    argv: tuple[str, ...] | None
    """None where `code` is given."""
    code: str | None
    stdin: str
    limits: ExecLimits
    files: dict[str, bytes]
    """The sandbox's files, to read and to change."""


Script = Callable[[Execution], ExecResult]


def silent(_: Execution) -> ExecResult:
    """The script of programs that do nothing, well."""
    return ExecResult(stdout="", stderr="", exit_code=0, reason="exited")


class MemoryRuntime:
    """Makes in-memory sandboxes that all play one script."""

    def __init__(self, script: Script = silent) -> None:
        self._script = script

    def check(self) -> None:
        """Always passes: nothing that could escape is executed."""

    def create(self, files: Mapping[str, str] | None = None, *, beside: Sandbox | None = None) -> MemorySandbox:
        sandbox = MemorySandbox(self._script)
        for path, text in (files or {}).items():
            sandbox.write(path, text.encode())
        return sandbox

    def restore(self, exported: bytes) -> MemorySandbox:
        """Takes the exports of any runtime, as far as they hold files. Raises UserError where they are no exports."""
        sandbox = MemorySandbox(self._script)
        for entry in unpack(exported):
            if entry.kind == "file":
                sandbox.write(entry.path, entry.data)
        return sandbox

    def close(self) -> None:
        """Nothing was started."""


class MemorySandbox:
    """Files and a script."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._files: dict[str, bytes] | None = {}

    def run(self, argv: Sequence[str], *, stdin: str = "", limits: ExecLimits | None = None) -> ExecResult:
        return self._play(tuple(argv), None, stdin, limits)

    def python(self, code: str, *, stdin: str = "", limits: ExecLimits | None = None) -> ExecResult:
        return self._play(None, code, stdin, limits)

    def write(self, path: str, data: bytes) -> None:
        self._opened()[layer_path(path)] = data

    def read(self, path: str) -> bytes:
        try:
            return self._opened()[layer_path(path)]
        except KeyError:
            raise FileNotFoundError(path) from None

    def export(self) -> bytes:
        return pack(Entry(path=path, kind="file", data=data) for path, data in self._opened().items())

    def fork(self) -> MemorySandbox:
        copy = MemorySandbox(self._script)
        copy._opened().update(self._opened())
        return copy

    def close(self) -> None:
        self._files = None

    def _opened(self) -> dict[str, bytes]:
        if self._files is None:
            raise SandboxError("the sandbox is closed")
        return self._files

    def _play(self, argv: tuple[str, ...] | None, code: str | None, stdin: str, limits: ExecLimits | None) -> ExecResult:
        execution = Execution(argv=argv, code=code, stdin=stdin, limits=limits or ExecLimits(), files=self._opened())
        return self._script(execution)

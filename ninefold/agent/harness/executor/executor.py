"""The executor: canonical operations on a sandbox, an index and its own notes. It is a world's working part."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from ninefold.agent.harness.executor.files import Files, relative
from ninefold.agent.harness.executor.notes import Notes
from ninefold.agent.harness.executor.operations import OPERATIONS, Refused, check
from ninefold.agent.harness.executor.patch import apply_patch
from ninefold.core.config import Config
from ninefold.core.errors import UserError
from ninefold.core.packed import as_bytes, pack, unpack
from ninefold.core.picture import Picture
from ninefold.core.protocols import ExecLimits, Observation, Sandbox, SandboxRuntime
from ninefold.core.types import Call
from ninefold.index import Index
from ninefold.media.png import from_png, to_png
from ninefold.media.view import crop

_SHELL = ["sh", "-c", 'cd -- "$2" && exec bash -c "$1" 2>&1', "sh"]
"""Both streams in the order they were written, in a shell of its own for each command."""
_SNIPPET = 200


class ExecutorConfig(Config):
    """Bounds that hold whatever a harness allows."""

    seconds: float = 5.0
    """Most that one command runs."""
    memory_mb: int = 256
    output_bytes: int = 1 << 20
    """A command that writes more is ended; views cut what is below it."""
    processes: int = 32


class Executor:
    """Canonical operations. What cannot be done is answered by text; only SandboxError is raised.

    Without an index there is nothing to search, which it says.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        index: Index | None = None,
        config: ExecutorConfig | None = None,
        notes: Notes | None = None,
        seen: Mapping[str, str] | None = None,
    ) -> None:
        self.sandbox = sandbox
        self.notes = notes or Notes()
        self._index = index
        self._config = config or ExecutorConfig()
        self._files = Files(sandbox, dict(seen or {}))
        files = self._files
        self._operations: dict[str, Callable[..., Observation]] = {
            "read": files.read,
            "write": files.write,
            "edit": files.edit,
            "patch": lambda patch: apply_patch(files, patch),
            "list": files.folder,
            "glob": files.glob,
            "grep": files.grep,
            "shell": self.shell,
            "search": self.search,
            "fetch": self.fetch,
            "media": self.media,
            "todo": self.notes.todo,
            "memory": self.notes.keep,
            "cron": self.notes.cron,
        }
        assert self._operations.keys() == OPERATIONS.keys()

    def call(self, call: Call) -> Observation:
        """Execute one canonical call."""
        try:
            check(call)
            return self._operations[call.tool](**call.arguments)
        except Refused as refusal:
            return Observation(text=f"error: {refusal}", data={"error": str(refusal)})

    def shell(self, command: str, folder: str = ".", seconds: float | None = None, background: bool = False) -> Observation:
        """Run a command to its end, or to its time: its processes do not outlive the call."""
        if background:
            raise Refused("no command can go on in the background here; run it to its end")
        allowed = min(seconds or self._config.seconds, self._config.seconds)
        limits = ExecLimits(
            seconds=allowed,
            memory_mb=self._config.memory_mb,
            output_bytes=self._config.output_bytes,
            processes=self._config.processes,
        )
        start = time.monotonic()
        ended = self.sandbox.run([*_SHELL, command, relative(folder)], limits=limits)
        why = {"timeout": f"timed out after {allowed:g} seconds", "memory": "out of memory", "output": "too much output"}
        data = {
            "output": ended.stdout + ended.stderr,
            "exit_code": ended.exit_code,
            "reason": ended.reason,
            "why": why.get(ended.reason, ""),
            "seconds": round(time.monotonic() - start),
        }
        return Observation(text=ended.stdout + ended.stderr, data=data)

    def search(self, query: str, count: float = 10) -> Observation:
        """The best documents for a query: title, address and beginning of each."""
        index = self._documents()
        hits = index.search(query, max(1, min(int(count), 50)))
        lines = [f"{hit.title}\n{hit.id}\n{' '.join(index.open(hit.id).text[:_SNIPPET].split())}" for hit in hits]
        return Observation(text="\n\n".join(lines) or "nothing found", data={"lines": lines, "total": len(hits)})

    def fetch(self, url: str, offset: float = 0, limit: float | None = None) -> Observation:
        """Characters of a document."""
        try:
            document = self._documents().open(url)
        except KeyError:
            raise Refused(f"nothing is found at {url[:200]}") from None
        start = max(0, int(offset))
        text = document.text[start:] if limit is None else document.text[start : start + int(limit)]
        data = {"output": text, "title": document.title, "left_out": max(0, len(document.text) - start - len(text))}
        return Observation(text=text, data=data)

    def media(self, path: str, region: Mapping[str, Any] | None = None) -> Observation:
        """A picture, or a region of it in pixels: x, y, width, height."""
        try:
            picture = from_png(self._files.data(path))
        except UserError as error:
            raise Refused(f"{path}: {error}") from None
        if region is not None:
            picture = _region(picture, region)
        size = f"{picture.width}×{picture.height}"
        return Observation(text=size, images=(to_png(picture),), data={"output": size, "path": path})

    def files(self) -> dict[str, bytes]:
        """Everything in the working directory, for a verifier."""
        return {path: self._files.data(path) for path in self._files.paths()}

    def save(self) -> bytes:
        """Everything needed to go on elsewhere, the index excepted."""
        record = {"notes": asdict(self.notes), "seen": self._files.seen}
        return pack(record, {"layer": as_bytes(self.sandbox.export())})

    @staticmethod
    def restore(
        saved: bytes, *, runtime: SandboxRuntime, index: Index | None = None, config: ExecutorConfig | None = None
    ) -> Executor:
        """The inverse of `save`."""
        record, arrays = unpack(saved)
        sandbox = runtime.restore(arrays["layer"].tobytes())
        return Executor(sandbox, index=index, config=config, notes=Notes(**record["notes"]), seen=record["seen"])

    def close(self) -> None:
        self.sandbox.close()

    def _documents(self) -> Index:
        if self._index is None:
            raise Refused("there is nothing to search here")
        return self._index


def _region(picture: Picture, region: Mapping[str, Any]) -> Picture:
    sides = [region.get(name) for name in ("x", "y", "width", "height")]
    if not all(isinstance(side, int) and not isinstance(side, bool) for side in sides):
        raise Refused("a region has x, y, width and height in whole pixels")
    x, y, width, height = (int(side) for side in sides if side is not None)
    try:
        return crop(picture, (x, y, x + width, y + height))
    except UserError as error:
        raise Refused(str(error)) from None

"""The append-only event log: one JSON object a line, safe under kill -9 and several writing processes."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

SCHEMA_VERSION = 1
"""Stated by each `run.start`; raised when events change so that an older reader would misread them."""

_SECRET_NAME = re.compile(r"(api[_-]?key|token|secret|password|authorization)$", re.IGNORECASE)
_SECRET_VALUE = re.compile(
    r"\b(sk-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16}|Bearer [A-Za-z0-9._~+/=-]{16,})"
)


def redact(value: Any, *, name: str = "") -> Any:
    """`value` with secrets replaced: strings under a secret's name, and strings that look like a well-known key."""
    if isinstance(value, Mapping):
        return {str(k): redact(v, name=str(k)) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [redact(v, name=name) for v in value]
    if isinstance(value, str):
        return "[redacted]" if value and _SECRET_NAME.search(name) else _SECRET_VALUE.sub("[redacted]", value)
    return value


class Emit(Protocol):
    """How stages report: a kind and its fields."""

    def __call__(self, kind: str, /, **fields: Any) -> None: ...


class EventLog:
    """Appends events to one file. Each line is one O_APPEND write, so writers never interleave."""

    def __init__(self, path: Path, **context: Any) -> None:
        """`context` is put into every event, e.g. stage="rl", cell="coding/low"."""
        self.path = path
        self.context = context
        path.parent.mkdir(parents=True, exist_ok=True)

    def __call__(self, kind: str, /, **fields: Any) -> None:
        event = {"time": time.time(), "pid": os.getpid(), "kind": kind, **self.context, **fields}
        line = json.dumps(redact(event), ensure_ascii=False, default=_plain) + "\n"
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(fd, line.encode())
        finally:
            os.close(fd)

    def bind(self, **context: Any) -> EventLog:
        """The same file with more context."""
        return EventLog(self.path, **{**self.context, **context})


def read_events(path: Path, *, offset: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
    """(offset after the event, event) from byte `offset` on; a line that is no event, or torn by a kill, is skipped."""
    if not path.exists():
        return
    with path.open("rb") as file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            offset += len(line)
            try:
                event = json.loads(line)
            except ValueError:  # no JSON, or cut within a character
                continue
            if isinstance(event, dict) and isinstance(event.get("kind"), str) and isinstance(event.get("time"), int | float):
                yield offset, event


def end_torn_line(path: Path) -> None:
    """End a last line that a kill cut off, or else the next event would be appended to it and lost with it."""
    if not path.exists():
        return
    with path.open("r+b") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")


def _plain(value: Any) -> Any:
    """A number or array of numpy or torch as JSON's own, anything else as text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)

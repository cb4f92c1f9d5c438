"""The world of families whose tools are the executor's operations: files, a shell, documents, notes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ninefold.agent.harness.executor import Executor
from ninefold.core.protocols import Observation
from ninefold.core.types import Call


class Workspace:
    """An executor as a world. What is left behind is what a verifier looks at."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def call(self, call: Call) -> Observation:
        return self._executor.call(call)

    def final(self, response: str | None) -> Mapping[str, Any]:
        """The last response, the text of every text file by its path, the list and the notes."""
        files = {}
        for path, data in self._executor.files().items():
            try:
                files[path] = data.decode()
            except UnicodeDecodeError:
                continue
        notes = self._executor.notes
        return {"response": response, "files": files, "todo": notes.items, "memory": notes.memory, "cron": notes.jobs}

    def save(self) -> bytes:
        return self._executor.save()

    def close(self) -> None:
        self._executor.close()

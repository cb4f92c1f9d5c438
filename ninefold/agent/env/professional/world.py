"""A working directory with files of office programs, and what was handed in."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ninefold.agent.env.professional import papers
from ninefold.agent.env.workspace import Workspace
from ninefold.agent.harness.executor import Executor
from ninefold.core.protocols import SandboxRuntime
from ninefold.core.types import Task

TOOL = "papers.py"
"""How Word files and workbooks are read and made in the sandbox, which has the standard library alone."""
LARGEST = 1 << 20
"""Bytes of a file that is handed in; a larger one is none."""


def inputs(task: Task) -> dict[str, bytes]:
    """Every file that lies there at the beginning."""
    found = {path: text.encode() for path, text in task.files.items()}
    found |= {path: _built(json.dumps(content)) for path, content in task.data["papers"].items()}
    return found | ({TOOL: _tool()} if task.level else {})


@lru_cache(maxsize=512)
def _built(content: str) -> bytes:
    return papers.packed(json.loads(content))


@lru_cache
def _tool() -> bytes:
    return Path(papers.__file__).read_bytes()


class Bureau(Workspace):
    """A workspace whose final state is what was handed in, and which of its inputs are not as they were."""

    def __init__(self, task: Task, executor: Executor) -> None:
        super().__init__(executor)
        self._task = task

    @staticmethod
    def open(task: Task, runtime: SandboxRuntime) -> Bureau:
        sandbox = runtime.create()
        for path, data in inputs(task).items():
            sandbox.write(path, data)
        return Bureau(task, Executor(sandbox))

    @staticmethod
    def restore(task: Task, saved: bytes, runtime: SandboxRuntime) -> Bureau:
        return Bureau(task, Executor.restore(saved, runtime=runtime))

    def final(self, response: str | None) -> Mapping[str, Any]:
        """The last response, the files to be handed in that are there (base64), and the inputs that are gone or changed."""
        files = self._executor.files()  # of regular files alone: a link hands in nothing
        wanted = {wanted["path"] for wanted in self._task.data["wanted"]}
        handed = {p: base64.b64encode(d).decode() for p, d in files.items() if p in wanted and len(d) <= LARGEST}
        changed = sorted(path for path, data in inputs(self._task).items() if files.get(path) != data)
        return {"response": response, "files": handed, "changed": changed}

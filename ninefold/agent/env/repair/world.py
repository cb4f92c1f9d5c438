"""A working directory in a sandbox, and the tools to mend it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ninefold.agent.env import candidate
from ninefold.agent.env.calls import refusal
from ninefold.agent.harness.arguments import shown
from ninefold.core.errors import UserError
from ninefold.core.protocols import Observation, Sandbox, SandboxRuntime, Tool
from ninefold.core.types import Call, Task

TOOLS: tuple[Tool, ...] = (
    Tool(name="read", description="The text of a file.", parameters={"path": "string"}),
    Tool(name="write", description="Replace the text of a file.", parameters={"path": "string", "text": "string"}),
    Tool(name="run_tests", description="Run the public test.", parameters={}),
)

LONGEST = 16_384
"""Bytes of a file that are read or handed in."""

_NAME = re.compile(r"\w[\w-]*(\.[\w-]+)*", re.ASCII)
_RUN = """
import os, sys
sys.dont_write_bytecode = True
sys.path.insert(0, os.getcwd())
exec(compile(open({path!r}).read(), {path!r}, "exec"), {{"__name__": "__main__"}})
"""


class RepairWorld:
    """The sandbox is made at the first call that needs it; a paused episode carries its export."""

    def __init__(self, task: Task, runtime: SandboxRuntime, exported: bytes = b"") -> None:
        self._task = task
        self._runtime = runtime
        self._sandbox: Sandbox | None = runtime.restore(exported) if exported else None

    def call(self, call: Call) -> Observation:
        """Read, write, or run the public test as it now stands in the working directory."""
        refused = refusal(call, TOOLS)
        if refused is not None:
            return Observation(text=refused)
        if call.tool == "run_tests":
            return Observation(text=self._run_tests())
        path = call.arguments["path"].strip()
        if len(path) > 64 or not _NAME.fullmatch(path):
            return Observation(text=f"error: bad path: {shown(path)} is not the name of a file here")
        if call.tool == "read":
            text = self._read(path)
            return Observation(text="error: no such file" if text is None else text)
        return Observation(text=self._write(path, call.arguments["text"]))

    def final(self, response: str | None) -> Mapping[str, Any]:
        """The last response, and the files that are to be mended; whatever else lies there is nobody's business."""
        files = {path: self._read(path) for path in self._task.data["right"]}
        return {"response": response, "files": files}

    def save(self) -> bytes:
        return b"" if self._sandbox is None else self._sandbox.export()

    def close(self) -> None:
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None

    def _opened(self) -> Sandbox:
        if self._sandbox is None:
            self._sandbox = self._runtime.create(self._task.files)
        return self._sandbox

    def _read(self, path: str) -> str | None:
        """None where there is no such file of text."""
        if self._sandbox is None:
            return self._task.files.get(path)
        try:
            return self._sandbox.read(path)[:LONGEST].decode(errors="replace")
        except (OSError, UserError):
            return None

    def _write(self, path: str, text: str) -> str:
        try:
            self._opened().write(path, text.encode())
        except (OSError, UserError):
            return "error: cannot write there"
        return "written"

    def _run_tests(self) -> str:
        """ "passed", or what the test says last."""
        program = _RUN.format(path=self._task.data["test"])
        ended = self._opened().python(program, limits=candidate.tool_limits(self._task))
        if ended.reason != "exited":
            return f"error: {ended.reason}"
        if ended.exit_code == 0:
            return "passed" if ended.stdout.rstrip().endswith("passed") else "error: the test said nothing"
        lines = ended.stderr.strip().splitlines() or ["failed"]
        return lines[-1].removeprefix("AssertionError: ")[:200]

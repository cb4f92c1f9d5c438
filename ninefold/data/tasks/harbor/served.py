"""A task's world behind `/app/tool`: programs in a sandbox call its tools, and its state stays out of their reach."""

from __future__ import annotations

import contextlib
import json
import os
import select
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from ninefold.agent.env import family
from ninefold.agent.harness.arguments import shown
from ninefold.agent.harness.tools import BAD_ARGUMENTS, NO_SUCH_TOOL
from ninefold.core.protocols import Family, SandboxRuntime, World, offered
from ninefold.core.types import Call, Task
from ninefold.sandbox.archive import Entry
from ninefold.sandbox.namespace import NamespaceSandbox

_FOLDER = ".world"
_PIPE_BYTES = 1 << 16
_LONGEST = 1 << 20
"""Bytes of a call."""
_ANSWER_SECONDS = 5.0

_TOOL = """#!/usr/bin/env python3
import fcntl, json, os, sys
if len(sys.argv) < 2 or not all("=" in given for given in sys.argv[2:]):
    sys.exit("usage: tool NAME PARAMETER=VALUE ...")
call = {"id": os.urandom(8).hex(), "tool": sys.argv[1], "arguments": dict(given.split("=", 1) for given in sys.argv[2:])}
with open("/work/.world/ask", "w") as ask, open("/work/.world/told") as told:
    fcntl.flock(ask, fcntl.LOCK_EX)
    print(json.dumps(call), file=ask, flush=True)
    answer = {"id": ""}
    while answer["id"] != call["id"]:  # an earlier one may not have been fetched
        answer = json.loads(told.readline())
    print(answer["text"])
"""


def door() -> list[Entry]:
    """What a sandbox needs for its programs to reach a world."""
    pipes = [Entry(path=f"{_FOLDER}/{name}", kind="fifo", mode=0o600) for name in ("ask", "told")]
    return [Entry(path="app/tool", kind="file", mode=0o755, data=_TOOL.encode()), *pipes]


class ServedWorld:
    """Serves the tools of a task's world to one sandbox that has a `door`, and remembers every call.

    The world lives in a thread of its own, for there are worlds that may be used in one thread only.
    """

    def __init__(self, task: Task, sandbox: NamespaceSandbox, runtime: SandboxRuntime) -> None:
        """`runtime` is for worlds that run code."""
        self.calls: list[Call] = []
        self._task = task
        self._family: Family = family(task.family)
        self._thread = ThreadPoolExecutor(1)
        self._world: World = self._thread.submit(self._family.open, task, seed=task.seed, runtime=runtime).result()
        self._ask, self._told = (sandbox.pipe(f"{_FOLDER}/{name}") for name in ("ask", "told"))
        self._ended, self._end = os.pipe()
        self._thread.submit(self._serve)

    def close(self) -> list[dict[str, Any]]:
        """Stop serving; the calls that were made, as JSON."""
        os.write(self._end, b"!")
        self._thread.submit(self._world.close).result()
        self._thread.shutdown()
        for fd in (self._ask, self._told, self._ended, self._end):
            os.close(fd)
        return [asdict(call) for call in self.calls]

    def _serve(self) -> None:
        heard = b""
        while True:
            ready, _, _ = select.select([self._ask, self._ended], [], [])
            if self._ended in ready:
                return
            heard += os.read(self._ask, _PIPE_BYTES)
            *lines, heard = heard[-_LONGEST:].split(b"\n")
            for line in lines:
                self._answer(line)

    def _call(self, asked: Mapping[str, Any]) -> str:
        tool = next((tool for tool in offered(self._family, self._task) if tool.name == asked.get("tool")), None)
        if tool is None:
            return f"error: {NO_SUCH_TOOL}"
        given = asked.get("arguments")
        if not isinstance(given, dict):
            return f"error: {BAD_ARGUMENTS}: {shown(given)} is not of type object"
        kinds = {**tool.optional, **tool.parameters}
        arguments = {name: _read(value, kinds.get(name, "string")) for name, value in given.items()}
        call = Call(tool=tool.name, arguments=arguments)
        self.calls.append(call)
        return self._world.call(call).text

    def _answer(self, line: bytes) -> None:
        """Put the answer into the pipe, in place of one that nobody fetched; a reader that stays away gets none."""
        asked: Any = None
        with contextlib.suppress(ValueError, RecursionError):
            asked = json.loads(line)
        if not isinstance(asked, dict):
            return
        told = {"id": asked.get("id"), "text": self._call(asked)}
        with contextlib.suppress(BlockingIOError):
            while os.read(self._told, _PIPE_BYTES):
                pass
        data = memoryview(json.dumps(told).encode() + b"\n")
        while data and select.select([], [self._told], [], _ANSWER_SECONDS)[1]:
            data = data[os.write(self._told, data[:4096]) :]


def _read(value: Any, kind: str) -> Any:
    """What a word of the command line says of a parameter; what is no JSON stays text, for the world to refuse."""
    if kind == "string" or not isinstance(value, str):
        return value
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(value)
    return value

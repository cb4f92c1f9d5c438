"""Tools of an MCP server as the tools of a task (Model Context Protocol: JSON-RPC over HTTP, or a program's pipes)."""

from __future__ import annotations

import base64
import json
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import httpx

from ninefold.agent.env.declared import tool_of, tools_of
from ninefold.agent.env.quiz import response_of, say
from ninefold.agent.env.script import plays
from ninefold.core.errors import NinefoldError, SandboxError, UserError, boundary
from ninefold.core.protocols import Move, Observation, SandboxRuntime, ScriptedPolicy, Style, Tool
from ninefold.core.types import Call, Domain, Result, Split, Task

VERSION = "2025-06-18"
"""Of the protocol; servers of other versions answer with theirs, and tools are called alike in all of them."""
PATIENCE = 60.0
"""Seconds of one call."""
SESSION = "mcp-session-id"

Place = str | Sequence[str]
"""URL of a server, or the command that starts one."""


class Line(Protocol):
    """The way to a server."""

    session: str
    """What the server knows the conversation by; empty where it does not say."""

    def ask(self, message: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Send a message; the answer with its id, None where it has none or no answer came."""
        ...

    def close(self) -> None: ...


class HttpLine:
    """Streamable HTTP: an answer is JSON, or a stream of events that holds it."""

    def __init__(self, url: str, session: str = "") -> None:
        self.session = session
        self._url = url
        self._client = httpx.Client(timeout=PATIENCE)

    def ask(self, message: Mapping[str, Any]) -> Mapping[str, Any] | None:
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": VERSION}
        answer = self._client.post(self._url, json=message, headers=headers | ({SESSION: self.session} if self.session else {}))
        answer.raise_for_status()
        self.session = answer.headers.get(SESSION, self.session)
        if "id" not in message:
            return None
        streamed = answer.headers.get("content-type", "").startswith("text/event-stream")
        told = [line[5:] for line in answer.text.splitlines() if line.startswith("data:")] if streamed else [answer.text]
        return next((said for said in map(json.loads, told) if said.get("id") == message["id"]), None)

    def close(self) -> None:
        self._client.close()


class PipeLine:
    """A program of ours that reads and writes a line a message."""

    session = ""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, message: Mapping[str, Any]) -> Mapping[str, Any] | None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(message), file=self._process.stdin, flush=True)
        if "id" not in message:
            return None
        return next((said for said in map(json.loads, self._process.stdout) if said.get("id") == message["id"]), None)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class McpServer:
    """A server to call tools of; speaks in turn, from one thread at a time."""

    def __init__(self, place: Place, session: str = "") -> None:
        """`session` goes on with a conversation that was begun. Raises SandboxError where the server does not answer."""
        self._name = f"the MCP server {place if isinstance(place, str) else shlex.join(place)}"
        with boundary(SandboxError, f"{self._name} cannot be started"):
            self._line: Line = HttpLine(place, session) if isinstance(place, str) else PipeLine(place)
        self._asked = 0
        if not session:
            self._greet()

    @property
    def session(self) -> str:
        return self._line.session

    def tools(self) -> tuple[Tool, ...]:
        """Every tool that it has, over all pages."""
        found: list[Tool] = []
        page: dict[str, Any] = {}
        while True:
            told = self._ask("tools/list", page)
            found += [tool_of(t["name"], t.get("description") or "", t.get("inputSchema") or {}) for t in told["tools"]]
            if not told.get("nextCursor"):
                return tuple(found)
            page = {"cursor": told["nextCursor"]}

    def call(self, call: Call) -> Observation:
        """What the tool answered, an error of its own included."""
        try:
            told = self._ask("tools/call", {"name": call.tool, "arguments": dict(call.arguments)})
        except UserError as error:
            return Observation(text=f"error: {error}")
        parts: Sequence[Mapping[str, Any]] = told.get("content") or ()
        text = "\n".join(part["text"] for part in parts if part.get("type") == "text")
        images = tuple(base64.b64decode(part["data"]) for part in parts if part.get("type") == "image")
        done = bool((told.get("_meta") or {}).get("done"))
        marked = told.get("isError") and not text.startswith("error:")
        return Observation(text=f"error: {text}" if marked else text, images=images, done=done)

    def close(self) -> None:
        self._line.close()

    def _greet(self) -> None:
        about = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "ninefold", "version": "0"}}
        try:
            self._ask("initialize", about)
            self._send({"method": "notifications/initialized"})
        except NinefoldError:
            self.close()
            raise

    def _ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result. Raises UserError with the server's word where it refuses, SandboxError where it does not answer."""
        self._asked += 1
        answer = self._send({"id": self._asked, "method": method, "params": params})
        if answer is None:
            raise SandboxError(f"{self._name} did not answer {method}")
        if "error" in answer:
            raise UserError(str(answer["error"].get("message")))
        return answer["result"]

    def _send(self, message: Mapping[str, Any]) -> Mapping[str, Any] | None:
        with boundary(SandboxError, f"{self._name} cannot be spoken to"):
            return self._line.ask({"jsonrpc": "2.0", **message})


class Switchboard:
    """The tools of several servers as one world; a tool is shown under its server's name and its own, joined by `_`."""

    def __init__(self, urls: Mapping[str, str]) -> None:
        """`urls` by the servers' names; tools of one that is called "" keep their own."""
        self._servers = {name: McpServer(url) for name, url in urls.items()}
        self._places: dict[str, tuple[McpServer, str]] = {}
        tools: list[Tool] = []
        for name, server in self._servers.items():
            for tool in server.tools():
                shown = f"{name}_{tool.name}" if name else tool.name
                self._places[shown] = server, tool.name
                tools.append(replace(tool, name=shown))
        self.tools = tuple(tools)

    def call(self, call: Call) -> Observation:
        if call.error is not None or call.tool not in self._places:
            return Observation(text=f"error: {(call.error or 'no such tool')[:200]}")
        server, name = self._places[call.tool]
        return server.call(replace(call, tool=name))

    def final(self, response: str | None) -> Mapping[str, Any]:
        """The servers keep the state; who started them knows it."""
        return {"response": response}

    def save(self) -> bytes:
        return b""

    def close(self) -> None:
        for server in self._servers.values():
            server.close()


class McpWorld:
    """The state is the server's own; what is kept is which conversation it was."""

    def __init__(self, place: Place, session: str = "") -> None:
        self._server = McpServer(place, session)
        self._calls = 0

    def call(self, call: Call) -> Observation:
        if call.error is not None:
            return Observation(text=f"error: {call.error[:200]}")
        self._calls += 1
        return self._server.call(call)

    def final(self, response: str | None) -> Mapping[str, Any]:
        return {"response": response, "calls": self._calls}

    def save(self) -> bytes:
        return self._server.session.encode()

    def close(self) -> None:
        self._server.close()


class Mcp:
    """Tasks that ask a question whose answer the tools of a server give."""

    name = "mcp"
    domain: Domain = "agents"
    levels = 1
    tools: tuple[Tool, ...] = ()
    isolated = False

    def brings(self, task: Task) -> tuple[Tool, ...]:
        """The tools that the server had when the task was made."""
        return tools_of(task.data["tools"])

    def generate(self, split: Split, level: int, seed: int) -> Task:
        raise UserError("tasks on an MCP server are imported (`ninefold mcp import`), not generated")

    def open(self, task: Task, *, seed: int, runtime: SandboxRuntime | None = None) -> McpWorld:
        return McpWorld(task.data["server"])

    def restore(self, task: Task, saved: bytes, *, runtime: SandboxRuntime | None = None) -> McpWorld:
        return McpWorld(task.data["server"], saved.decode())

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        """The answer, in whatever case and with whatever white space; only of a policy that has called a tool."""
        given, wanted = (" ".join(text.lower().split()) for text in (response_of(final), task.data["answer"]))
        if final.get("calls") and given == wanted:
            return Result(status="pass", score=1.0)
        return Result(status="fail", detail="the answer is another, or no tool was called for it")

    def gold(self, task: Task) -> ScriptedPolicy:
        """Knows the answer, and calls the first tool that needs nothing, or any, for form's sake."""
        tool = min(self.brings(task), key=lambda tool: len(tool.parameters))
        return plays(Move(calls=(Call(tool=tool.name, arguments={}),)), Move(response=task.data["answer"]))

    def demonstrate(self, task: Task, style: Style) -> ScriptedPolicy:
        return self.gold(task)

    def hacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        return {
            "answers without a call": say(task.data["answer"]),
            "answers the question": say(task.instruction),
            "claims to be done": say("done"),
        }

    def phrases(self) -> Sequence[str]:
        return ()

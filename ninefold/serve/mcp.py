"""The server side of the Model Context Protocol: JSON-RPC over HTTP, over a program's pipes, or inside other messages.

Whoever is served is a `Host`: what it offers a conversation is a task with its tools. The instruction comes with the answer to
`initialize` and as the prompt `task`; beside the task's tools there is one to hand in the answer. What was said of the outcome
goes into `_meta`, which clients do not show to models.

A tool that could not do what it was asked has a result with `isError`, which models see; what is wrong with the message (no
such method, tool, prompt or conversation) is an error of JSON-RPC.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TextIO

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, Response

import ninefold
from ninefold.agent.env.declared import schema_of
from ninefold.agent.env.mcp import SESSION
from ninefold.core.errors import NinefoldError, UserError
from ninefold.core.protocols import Tool
from ninefold.core.types import Task
from ninefold.serve.stored import Reply

ANSWER = "submit_answer"
"""The tool that hands in the answer."""
PROMPT = "task"
"""The prompt that is the instruction."""
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Revisions of the protocol that are spoken: all that begin with `initialize`."""
_UNREADABLE, _MALFORMED, _UNKNOWN, _INVALID, _BROKEN = -32700, -32600, -32601, -32602, -32603
_HERE = re.compile(r"https?://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?")
"""Origins of pages on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a call came to."""

    reply: Reply
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """JSON that is not for the model; `done` says that the task is over."""


class Offer(Protocol):
    """What a conversation is offered."""

    @property
    def task(self) -> Task: ...

    @property
    def tools(self) -> Sequence[Tool]: ...

    @property
    def handing_in(self) -> str:
        """What models read of the tool that hands in the answer."""
        ...

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call one of the tools."""
        ...

    def answer(self, response: str) -> Outcome:
        """Hand in the answer."""
        ...


class Host(Protocol):
    """Knows the conversations."""

    def begin(self) -> str:
        """The id of a new conversation; empty where none is needed."""
        ...

    def find(self, session: str) -> Offer | None:
        """What that conversation is offered; None where there is none of that id."""
        ...

    def leave(self, session: str) -> None:
        """The conversation is over."""
        ...


def answer(host: Host, message: Any, session: str = "") -> tuple[dict[str, Any] | None, str]:
    """(answer to a JSON-RPC message, None where none is due; the conversation's id). Raises nothing on what a client sends."""
    if isinstance(message, Mapping) and ("result" in message or "error" in message):
        return None, session
    if not isinstance(message, Mapping) or not isinstance(message.get("method"), str):
        return _error(None, _MALFORMED, "a message of JSON-RPC is an object with a method"), session
    if "id" not in message:
        return None, session
    params = message.get("params")
    params = params if isinstance(params, Mapping) else {}
    session = session or str(params.get("session_id", ""))
    try:
        told, session = _answer(host, message["method"], params, session)
    except UserError as error:
        return _error(message["id"], _INVALID, str(error)), session
    except NinefoldError as error:
        return _error(message["id"], _BROKEN, str(error)), session
    if told is None:
        return _error(message["id"], _UNKNOWN, f"there is no method {message['method']}"), session
    return {"jsonrpc": "2.0", "id": message["id"], "result": told}, session


def _answer(host: Host, method: str, params: Mapping[str, Any], session: str) -> tuple[dict[str, Any] | None, str]:
    match method:
        case "ping":
            return {}, session
        case "initialize":
            session = host.begin()
            return _initialized(_offer(host, session), params), session
        case "openenv/session/create":
            session = host.begin()
            return {"session_id": session}, session
        case "openenv/session/close":
            _offer(host, session)
            host.leave(session)
            return {"session_id": session, "closed": True}, ""
        case "tools/list":
            return {"tools": _declared(_offer(host, session))}, session
        case "tools/call":
            return _called(_offer(host, session), params), session
        case "prompts/list":
            return {"prompts": [{"name": PROMPT, "description": "What is to be done."}]}, session
        case "prompts/get":
            return _prompt(_offer(host, session), params), session
    return None, session


def _offer(host: Host, session: str) -> Offer:
    offer = host.find(session)
    if offer is None:
        raise UserError("no such conversation: send initialize first, and its Mcp-Session-Id with every message")
    return offer


def _initialized(offer: Offer, params: Mapping[str, Any]) -> dict[str, Any]:
    asked = params.get("protocolVersion")
    return {
        "protocolVersion": asked if asked in VERSIONS else VERSIONS[-1],
        "capabilities": {"tools": {}, "prompts": {}},
        "serverInfo": {"name": f"ninefold {offer.task.family}", "version": ninefold.__version__},
        "instructions": offer.task.instruction,
    }


def _declared(offer: Offer) -> list[dict[str, Any]]:
    tools = [*offer.tools, Tool(name=ANSWER, description=offer.handing_in, parameters={"text": "string"})]
    return [{"name": tool.name, "description": tool.description, "inputSchema": schema_of(tool)} for tool in tools]


def _prompt(offer: Offer, params: Mapping[str, Any]) -> dict[str, Any]:
    if params.get("name") != PROMPT:
        raise UserError(f"there is no prompt {params.get('name')!r}, only {PROMPT!r}")
    return {"messages": [{"role": "user", "content": {"type": "text", "text": offer.task.instruction}}]}


def _called(offer: Offer, params: Mapping[str, Any]) -> dict[str, Any]:
    name, arguments = params.get("name"), params.get("arguments") or {}
    if not isinstance(arguments, Mapping):
        raise UserError("arguments are a JSON object")
    if name == ANSWER:
        return _result(offer.answer(str(arguments.get("text", ""))))
    if name not in {tool.name for tool in offer.tools}:
        raise UserError(f"there is no tool {name!r}; tools/list names those that there are")
    return _result(offer.call(str(name), dict(arguments)))


def _result(outcome: Outcome) -> dict[str, Any]:
    """A result of tools/call. That a tool begins its text with `error:` is how worlds tell of what they could not do."""
    reply = outcome.reply
    pictures = [{"type": "image", "mimeType": "image/png", "data": image} for image in reply.images]
    told = {"content": [{"type": "text", "text": reply.text}, *pictures], "isError": reply.text.startswith("error:")}
    return {**told, "_meta": dict(outcome.meta)} if outcome.meta else told


def _error(number: Any, code: int, text: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": text}}


def add_mcp(app: FastAPI, host: Host) -> None:
    """Let the app answer at /mcp (streamable HTTP, every answer as JSON)."""

    @app.post("/mcp")
    async def mcp(request: Request) -> Response:
        """The Model Context Protocol: one message."""
        origin, session = request.headers.get("origin"), request.headers.get(SESSION, "")
        if origin and not _HERE.fullmatch(origin):
            # A page elsewhere may have bent its own name to this machine's address.
            return JSONResponse(_error(None, _MALFORMED, "pages of other sites are not answered"), status_code=403)
        gone = bool(session) and host.find(session) is None
        told, session = await run_in_threadpool(_answer_text, host, await request.body(), session)
        headers = {SESSION: session} if session else {}
        if told is None:
            return Response(status_code=202, headers=headers)
        return JSONResponse(told, status_code=404 if gone else 400 if told["id"] is None else 200, headers=headers)

    @app.delete("/mcp")
    async def leave(request: Request) -> Response:
        """The Model Context Protocol: the conversation is over."""
        await run_in_threadpool(host.leave, request.headers.get(SESSION, ""))
        return Response(status_code=204)


def over_pipes(host: Host, read: TextIO = sys.stdin, write: TextIO = sys.stdout) -> None:
    """Answer a line a message until nothing more is read."""
    session = ""
    for line in read:
        told, session = _answer_text(host, line, session)
        if told is not None:
            print(json.dumps(told), file=write, flush=True)


def _answer_text(host: Host, text: str | bytes, session: str) -> tuple[dict[str, Any] | None, str]:
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return _error(None, _UNREADABLE, "not JSON"), session
    return answer(host, message, session)

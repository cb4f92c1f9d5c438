"""The tools of a family's worlds for any MCP client: JSON-RPC over HTTP, or over a program's pipes.

A conversation plays one task: its instruction comes with the answer to `initialize` and as the prompt `task`, and beside the
world's tools there is one to hand in the answer. The verdict goes into `_meta`, which clients do not show to models.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Mapping
from typing import Any, TextIO

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, Response

import ninefold
from ninefold.agent.env.declared import schema_of
from ninefold.agent.env.mcp import SESSION, VERSION
from ninefold.core.errors import NinefoldError, UserError
from ninefold.core.types import Call
from ninefold.serve.worlds import Visit, Worlds

ANSWER = "submit_answer"
"""The tool that hands in the answer."""
_UNKNOWN, _INVALID, _BROKEN, _UNREADABLE = -32601, -32602, -32603, -32700


def answer(worlds: Worlds, message: Any, session: str = "") -> tuple[dict[str, Any] | None, str]:
    """(answer to a JSON-RPC message, None where none is due; the conversation's id). Raises nothing on what a client sends."""
    if not isinstance(message, Mapping) or not isinstance(message.get("method"), str):
        return _error(None, _UNREADABLE, "not a JSON-RPC message"), session
    if "id" not in message:
        return None, session
    params = message.get("params")
    params = params if isinstance(params, Mapping) else {}
    session = session or str(params.get("session_id", ""))
    try:
        told, session = _answer(worlds, message["method"], params, session)
    except UserError as error:
        return _error(message["id"], _INVALID, str(error)), session
    except NinefoldError as error:
        return _error(message["id"], _BROKEN, str(error)), session
    if told is None:
        return _error(message["id"], _UNKNOWN, f"there is no method {message['method']}"), session
    return {"jsonrpc": "2.0", "id": message["id"], "result": told}, session


def _answer(worlds: Worlds, method: str, params: Mapping[str, Any], session: str) -> tuple[dict[str, Any] | None, str]:
    match method:
        case "ping":
            return {}, session
        case "initialize":
            visit = worlds.begin(worlds.task())
            return _initialized(visit, params), visit.id
        case "openenv/session/create":
            visit = worlds.begin(worlds.task())
            return {"session_id": visit.id}, visit.id
        case "openenv/session/close":
            worlds.leave(_visit(worlds, session))
            return {"session_id": session, "closed": True}, ""
        case "tools/list":
            return {"tools": [*_tools(_visit(worlds, session)), _HAND_IN]}, session
        case "tools/call":
            return _called(worlds, _visit(worlds, session), params), session
        case "prompts/list":
            return {"prompts": [{"name": "task", "description": "What is to be done."}]}, session
        case "prompts/get":
            text = _visit(worlds, session).task.instruction
            return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}, session
    return None, session


def _initialized(visit: Visit, params: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "protocolVersion": str(params.get("protocolVersion", VERSION)),
        "capabilities": {"tools": {}, "prompts": {}},
        "serverInfo": {"name": f"ninefold {visit.task.family}", "version": ninefold.__version__},
        "instructions": visit.task.instruction,
    }


def _visit(worlds: Worlds, session: str) -> Visit:
    if session not in worlds.visits:
        raise UserError("no such conversation: send initialize first, and its Mcp-Session-Id with every message")
    return worlds.visits[session]


def _tools(visit: Visit) -> list[dict[str, Any]]:
    return [{"name": t.name, "description": t.description, "inputSchema": schema_of(t)} for t in visit.tools]


_HAND_IN = {
    "name": ANSWER,
    "description": "Hand in the answer; nothing can be done after it.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


def _called(worlds: Worlds, visit: Visit, params: Mapping[str, Any]) -> dict[str, Any]:
    name, arguments = params.get("name"), params.get("arguments") or {}
    if not isinstance(arguments, Mapping):
        raise UserError("arguments are a JSON object")
    if name == ANSWER:
        worlds.answer(visit, str(arguments.get("text", "")))
        content: list[dict[str, Any]] = [{"type": "text", "text": "handed in"}]
    elif name in {tool.name for tool in visit.tools}:
        seen = worlds.call(visit, Call(tool=str(name), arguments=dict(arguments)))
        pictures = [{"type": "image", "mimeType": "image/png", "data": base64.b64encode(p).decode()} for p in seen.images]
        content = [{"type": "text", "text": seen.text}, *pictures]
    else:
        raise UserError(f"there is no tool {name!r}")
    result = visit.result
    if result is None:
        return {"content": content}
    verdict = {"done": True, "status": result.status, "score": result.score, "detail": result.detail}
    return {"content": content, "_meta": verdict}


def _error(number: Any, code: int, text: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": text}}


def add_mcp(app: FastAPI, worlds: Worlds) -> None:
    """Let the app answer at /mcp."""

    @app.post("/mcp")
    async def mcp(request: Request) -> Response:
        try:
            message = json.loads(await request.body())
        except (ValueError, RecursionError):
            message = None
        told, session = await run_in_threadpool(answer, worlds, message, request.headers.get(SESSION, ""))
        headers = {SESSION: session} if session else {}
        return Response(status_code=202, headers=headers) if told is None else JSONResponse(told, headers=headers)

    @app.delete("/mcp")
    async def leave(request: Request) -> Response:
        visit = worlds.visits.get(request.headers.get(SESSION, ""))
        if visit is not None:
            await run_in_threadpool(worlds.leave, visit)
        return Response(status_code=204)


def over_pipes(worlds: Worlds, read: TextIO = sys.stdin, write: TextIO = sys.stdout) -> None:
    """Answer a line a message until nothing more is read."""
    session = ""
    for line in read:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        told, session = answer(worlds, message, session)
        if told is not None:
            print(json.dumps(told), file=write, flush=True)

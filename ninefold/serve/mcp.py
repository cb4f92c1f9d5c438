"""The tools of a family's served for any MCP client: JSON-RPC over HTTP, or over a program's pipes.

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
from ninefold.serve.episodes import Episodes, ServedEpisode

ANSWER = "submit_answer"
"""The tool that hands in the answer."""
_UNKNOWN, _INVALID, _BROKEN, _UNREADABLE = -32601, -32602, -32603, -32700


def answer(served: Episodes, message: Any, session: str = "") -> tuple[dict[str, Any] | None, str]:
    """(answer to a JSON-RPC message, None where none is due; the conversation's id). Raises nothing on what a client sends."""
    if not isinstance(message, Mapping) or not isinstance(message.get("method"), str):
        return _error(None, _UNREADABLE, "not a JSON-RPC message"), session
    if "id" not in message:
        return None, session
    params = message.get("params")
    params = params if isinstance(params, Mapping) else {}
    session = session or str(params.get("session_id", ""))
    try:
        told, session = _answer(served, message["method"], params, session)
    except UserError as error:
        return _error(message["id"], _INVALID, str(error)), session
    except NinefoldError as error:
        return _error(message["id"], _BROKEN, str(error)), session
    if told is None:
        return _error(message["id"], _UNKNOWN, f"there is no method {message['method']}"), session
    return {"jsonrpc": "2.0", "id": message["id"], "result": told}, session


def _answer(served: Episodes, method: str, params: Mapping[str, Any], session: str) -> tuple[dict[str, Any] | None, str]:
    match method:
        case "ping":
            return {}, session
        case "initialize":
            episode = served.begin(served.task())
            return _initialized(episode, params), episode.id
        case "openenv/session/create":
            episode = served.begin(served.task())
            return {"session_id": episode.id}, episode.id
        case "openenv/session/close":
            served.leave(_episode(served, session))
            return {"session_id": session, "closed": True}, ""
        case "tools/list":
            return {"tools": [*_tools(_episode(served, session)), _HAND_IN]}, session
        case "tools/call":
            return _called(served, _episode(served, session), params), session
        case "prompts/list":
            return {"prompts": [{"name": "task", "description": "What is to be done."}]}, session
        case "prompts/get":
            text = _episode(served, session).task.instruction
            return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}, session
    return None, session


def _initialized(episode: ServedEpisode, params: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "protocolVersion": str(params.get("protocolVersion", VERSION)),
        "capabilities": {"tools": {}, "prompts": {}},
        "serverInfo": {"name": f"ninefold {episode.task.family}", "version": ninefold.__version__},
        "instructions": episode.task.instruction,
    }


def _episode(served: Episodes, session: str) -> ServedEpisode:
    if session not in served.episodes:
        raise UserError("no such conversation: send initialize first, and its Mcp-Session-Id with every message")
    return served.episodes[session]


def _tools(episode: ServedEpisode) -> list[dict[str, Any]]:
    return [{"name": t.name, "description": t.description, "inputSchema": schema_of(t)} for t in episode.tools]


_HAND_IN = {
    "name": ANSWER,
    "description": "Hand in the answer; nothing can be done after it.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


def _called(served: Episodes, episode: ServedEpisode, params: Mapping[str, Any]) -> dict[str, Any]:
    name, arguments = params.get("name"), params.get("arguments") or {}
    if not isinstance(arguments, Mapping):
        raise UserError("arguments are a JSON object")
    if name == ANSWER:
        served.answer(episode, str(arguments.get("text", "")))
        content: list[dict[str, Any]] = [{"type": "text", "text": "handed in"}]
    elif name in {tool.name for tool in episode.tools}:
        seen = served.call(episode, Call(tool=str(name), arguments=dict(arguments)))
        pictures = [{"type": "image", "mimeType": "image/png", "data": base64.b64encode(p).decode()} for p in seen.images]
        content = [{"type": "text", "text": seen.text}, *pictures]
    else:
        raise UserError(f"there is no tool {name!r}")
    result = episode.result
    if result is None:
        return {"content": content}
    verdict = {"done": True, "status": result.status, "score": result.score, "detail": result.detail}
    return {"content": content, "_meta": verdict}


def _error(number: Any, code: int, text: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": text}}


def add_mcp(app: FastAPI, served: Episodes) -> None:
    """Let the app answer at /mcp."""

    @app.post("/mcp")
    async def mcp(request: Request) -> Response:
        try:
            message = json.loads(await request.body())
        except (ValueError, RecursionError):
            message = None
        told, session = await run_in_threadpool(answer, served, message, request.headers.get(SESSION, ""))
        headers = {SESSION: session} if session else {}
        return Response(status_code=202, headers=headers) if told is None else JSONResponse(told, headers=headers)

    @app.delete("/mcp")
    async def leave(request: Request) -> Response:
        episode = served.episodes.get(request.headers.get(SESSION, ""))
        if episode is not None:
            await run_in_threadpool(served.leave, episode)
        return Response(status_code=204)


def over_pipes(served: Episodes, read: TextIO = sys.stdin, write: TextIO = sys.stdout) -> None:
    """Answer a line a message until nothing more is read."""
    session = ""
    for line in read:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        told, session = answer(served, message, session)
        if told is not None:
            print(json.dumps(told), file=write, flush=True)

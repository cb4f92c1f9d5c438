"""A world over HTTP and MCP: agents call its tools, whoever owns it judges it, takes snapshots and goes back to them."""

from __future__ import annotations

import hmac
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Body, FastAPI, Header, Request
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from ninefold.agent.harness.tools import ToolInterface
from ninefold.core.errors import NinefoldError, UserError
from ninefold.serve.hosts import WorldHost
from ninefold.serve.mcp import add_mcp
from ninefold.serve.refusal import example_of, explain_requests
from ninefold.serve.stored import StoredWorld

OWNED = ("/verdict", "/snapshot")
"""Routes that an agent must not reach."""


def create_world_app(world: StoredWorld, *, token: str = "", owner_token: str = "") -> FastAPI:
    """The server of one world.

    With `token` every route but /health asks for it, /mcp included. The owner's routes ask for `owner_token`, and are not there
    without it: an agent cannot judge itself.
    """
    app = FastAPI(title=world.task.id)
    app.add_middleware(Guard, token=token, owner_token=owner_token)
    app.add_exception_handler(NinefoldError, _answer_error)
    explain_requests(app, lambda path: _example(world, path))
    add_mcp(app, WorldHost(world))

    @app.get("/health")
    def health() -> dict[str, Any]:
        """Whether the world is up, and how many calls were made."""
        return {"status": "ok", "task": world.task.id, "calls": world.calls}

    @app.get("/task")
    def task() -> dict[str, Any]:
        """What an agent is told: the instruction, and the tools as OpenAI's function declarations."""
        schemas = ToolInterface(schema="described").schemas(world.tools)
        return {"id": world.task.id, "instruction": world.task.instruction, "tools": schemas}

    @app.post("/tools/{name}")
    def call(name: str, arguments: dict[str, Any], idempotency_key: Annotated[str, Header()] = "") -> dict[str, Any]:
        """Call a tool with the body's arguments. With an `Idempotency-Key` it may be sent again: no call is made twice."""
        return asdict(world.call(name, arguments, idempotency_key))

    @app.post("/answer")
    def answer(response: Annotated[str, Body(embed=True)]) -> dict[str, bool]:
        """Hand in the last response."""
        world.answer(response)
        return {"taken": True}

    @app.get("/verdict")
    def verdict() -> dict[str, Any]:
        """What the verifier says of the world as it is now; for its owner."""
        return asdict(world.verdict())

    @app.get("/snapshot")
    def snapshot() -> Response:
        """The world as bytes; for its owner."""
        return Response(world.snapshot(), media_type="application/octet-stream")

    @app.put("/snapshot")
    async def restore(request: Request) -> dict[str, int]:
        """Go back to a snapshot, which is the body; for its owner."""
        await run_in_threadpool(world.restore, await request.body())
        return {"calls": world.calls}

    return app


class Guard:
    """Answers 401 to a request without the token that its route asks for."""

    def __init__(self, app: ASGIApp, *, token: str, owner_token: str) -> None:
        self._app, self._token, self._owner_token = app, token, owner_token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._may(scope["path"].rstrip("/"), Request(scope)):
            where = "the owner's token" if scope["path"].rstrip("/") in OWNED else "the token"
            refusal = {"detail": f"send {where} that the server was started with as `Authorization: Bearer TOKEN`"}
            await JSONResponse(refusal, status_code=401)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _may(self, path: str, request: Request) -> bool:
        given = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
        owner = bool(self._owner_token) and _equal(given, self._owner_token)
        if path in OWNED:
            return owner
        return path == "/health" or owner or not self._token or _equal(given, self._token)


def _example(world: StoredWorld, path: str) -> dict[str, Any]:
    """A body for /answer, or for the tool that a path names."""
    if path == "/answer":
        return {"response": "what the agent answers"}
    return next((example_of(tool) for tool in world.tools if path == f"/tools/{tool.name}"), {"NAME": "VALUE"})


def _equal(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())


async def _answer_error(_: Request, error: Exception) -> Response:
    return JSONResponse({"detail": str(error)}, status_code=400 if isinstance(error, UserError) else 500)

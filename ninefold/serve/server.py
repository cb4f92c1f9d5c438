"""The HTTP side: routes, keys, errors, disconnects."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ninefold.serve.completion import ChatCompletion, Service
from ninefold.serve.errors import ApiError, invalid, no_model, unauthorized
from ninefold.serve.refusal import unread
from ninefold.serve.request import ChatRequest

MAX_BODY = 1_000_000
"""Bytes of a request; far more than any context holds."""
WATCH_S = 0.2
"""Between looks at whether the client of an unstreamed request is still there."""


def create_app(service: Service, *, api_key: str | None = None) -> FastAPI:
    """The server of one model. With `api_key` every route but /health asks for it."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.loop.start()
        yield
        service.loop.close()

    def authorize(request: Request) -> None:
        given = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
        if api_key and not hmac.compare_digest(given.encode(), api_key.encode()):
            raise unauthorized()

    app = FastAPI(title="ninefold", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(BodyLimit)
    app.add_exception_handler(ApiError, _answer_error)
    app.add_exception_handler(RequestValidationError, _answer_validation)
    app.add_exception_handler(HTTPException, _answer_http)
    guarded: Any = [Depends(authorize)]

    @app.get("/health")
    def health() -> Response:
        failure = service.loop.failure
        state = (
            {"status": "failed", "detail": str(failure)} if failure else {"status": "ok", "in_flight": service.loop.in_flight}
        )
        return JSONResponse(state, status_code=503 if failure else 200)

    @app.get("/v1/models", dependencies=guarded)
    def models() -> dict[str, Any]:
        return {"object": "list", "data": [_model(service)]}

    @app.get("/v1/models/{name:path}", dependencies=guarded)
    def model(name: str) -> dict[str, Any]:
        if name != service.model:
            raise no_model(name, service.model)
        return _model(service)

    @app.post("/v1/chat/completions", dependencies=guarded)
    async def chat_completions(body: ChatRequest, request: Request) -> Response:
        completion = service.complete(body)
        if body.stream:
            return StreamingResponse(completion.events(), media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        return await _while_connected(completion, request)

    return app


class BodyLimit:
    """Answers 413 to a body beyond MAX_BODY, before it is read whole: reading and checking it would hold up everyone."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > MAX_BODY:
                raise HTTPException(413, f"the body is larger than {MAX_BODY:,} bytes")
            return message

        await self._app(scope, counted, send)


async def _while_connected(completion: ChatCompletion, request: Request) -> Response:
    """The whole answer; a client that leaves takes its generations along."""
    task = asyncio.create_task(completion.whole())
    try:
        while not (await asyncio.wait([task], timeout=WATCH_S))[0]:
            if await request.is_disconnected():
                return Response(status_code=499)
        return JSONResponse(task.result())
    finally:
        task.cancel()


def _model(service: Service) -> dict[str, Any]:
    return {
        "id": service.model,
        "object": "model",
        "created": service.created,
        "owned_by": "ninefold",
        "context_length": service.context,
    }


async def _answer_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return JSONResponse(error.body, status_code=error.status)


async def _answer_validation(request: Request, error: Exception) -> Response:
    """Types that do not fit: OpenAI answers 400 and names the field."""
    assert isinstance(error, RequestValidationError)
    if (why := unread(request, error)) is not None:
        return await _answer_error(request, invalid(why))
    first = error.errors()[0]
    path = [str(part) for part in first["loc"] if part != "body"]
    param = ".".join(path[:1] if path and path[0] in ChatRequest.model_fields else path) or None
    return await _answer_error(request, invalid(f"{param or 'body'}: {first['msg']}", param))


async def _answer_http(request: Request, error: Exception) -> Response:
    """Unknown routes and methods."""
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path}: {error.detail}"
    return JSONResponse(ApiError(error.status_code, message, kind="invalid_request_error").body, status_code=error.status_code)

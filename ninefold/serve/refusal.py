"""What servers say of a request that they cannot read: what is wrong with it, and one that is right."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response

from ninefold.core.protocols import Tool

_HEADER = "Content-Type: application/json"
_VALUES: Mapping[str, Any] = {"string": "VALUE", "number": 1, "boolean": True, "object": {}, "array": []}
_FAULTS = {"missing": "is missing", "dict_type": "is no JSON object", "string_type": "is no string"}
"""Kind of fault → what is said of the place where it is."""


def explain_requests(app: FastAPI, example: Callable[[str], Mapping[str, Any]]) -> None:
    """Let `app` answer 422 to a body that it cannot read with what is wrong and a right request, and nothing of the body.

    `example` gives a body for a path.
    """

    async def answer(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        told = f"{request.method} {request.url.path}: {_wrong(request, error)}. A right request: "
        return JSONResponse({"detail": told + _right(request, example(request.url.path))}, status_code=422)

    app.add_exception_handler(RequestValidationError, answer)


def example_of(tool: Tool) -> dict[str, Any]:
    """Arguments of the types that a tool takes."""
    return {name: _VALUES[kind] for name, kind in tool.parameters.items()}


def unread(request: Request, error: RequestValidationError) -> str | None:
    """Why a body could not be read as JSON; None where it could."""
    if not error.body and request.headers.get("content-length", "0") == "0":
        return "the request has no body; it takes a JSON object"
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not kind:
        return f"the request lacks the header {_HEADER}"
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        return f"the header Content-Type is {kind[:80]}, not application/json"
    torn = next((fault for fault in error.errors() if fault["type"] == "json_invalid"), None)
    return torn and f"the body is no JSON: {torn['ctx']['error']} at character {torn['loc'][-1]}"


def _wrong(request: Request, error: RequestValidationError) -> str:
    return unread(request, error) or "; ".join(dict.fromkeys(map(_told, error.errors())))


def _told(fault: Mapping[str, Any]) -> str:
    place = ".".join(str(part) for part in fault["loc"][1:]) or "the body"
    return f"{place} {_FAULTS.get(fault['type'], fault['msg'])}"


def _right(request: Request, body: Mapping[str, Any]) -> str:
    headers = [_HEADER, *(["Authorization: Bearer TOKEN"] if "authorization" in request.headers else [])]
    options = [word for header in headers for word in ("-H", header)]
    return shlex.join(["curl", "-X", request.method, str(request.url), *options, "-d", json.dumps(body)])

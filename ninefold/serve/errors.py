"""Errors as OpenAI clients expect them."""

from __future__ import annotations

from typing import Any


class ApiError(Exception):
    """Answers a request with an HTTP status and OpenAI's error object."""

    def __init__(self, status: int, message: str, *, kind: str, param: str | None = None, code: str | None = None) -> None:
        """`kind` is OpenAI's error type, `param` the request's field at fault."""
        super().__init__(message)
        self.status = status
        self.body: dict[str, Any] = {"error": {"message": message, "type": kind, "param": param, "code": code}}


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """400: the request cannot be served as it is."""
    return ApiError(400, message, kind="invalid_request_error", param=param, code=code)


def too_long(prompt: int, context: int) -> ApiError:
    """400: the prompt leaves no room in the context."""
    message = f"This model's context holds {context} tokens; your messages and tools take {prompt}. Please shorten them."
    return invalid(message, "messages", "context_length_exceeded")


def unauthorized() -> ApiError:
    """401: no key, or a wrong one."""
    message = "Incorrect API key provided; send the key that the server was started with as `Authorization: Bearer KEY`."
    return ApiError(401, message, kind="invalid_request_error", code="invalid_api_key")


def no_model(asked: str, served: str) -> ApiError:
    """404: another model is asked for."""
    message = f"The model {asked!a} does not exist here; this server has {served!a}."
    return ApiError(404, message, kind="invalid_request_error", param="model", code="model_not_found")


def overloaded(limit: int) -> ApiError:
    """429: more generations in flight than the server takes."""
    message = f"This server takes {limit} generations at a time; try again shortly."
    return ApiError(429, message, kind="rate_limit_error", code="rate_limit_exceeded")


def broken(message: str) -> ApiError:
    """500: the engine failed."""
    return ApiError(500, message, kind="server_error")

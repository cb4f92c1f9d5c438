"""The chat completion request, checked at the door."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from ninefold.core.types import Effort
from ninefold.serve.errors import invalid

MAX_CHOICES = 16
MAX_STOPS = 4

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "frequency_penalty": (None, 0),
    "presence_penalty": (None, 0),
    "logit_bias": (None, {}),
    "top_logprobs": (None, 0),
    "response_format": (None, {"type": "text"}),
    "modalities": (None, ["text"]),
    "audio": (None,),
    "functions": (None, []),
    "function_call": (None, "none"),
    "web_search_options": (None,),
}
"""Parameters that we do not implement → the values under which they change nothing."""

IGNORED = frozenset(
    ("user", "metadata", "store", "service_tier", "parallel_tool_calls", "prediction", "verbosity", "prompt_cache_key",
     "prompt_cache_retention", "safety_identifier")
)  # fmt: skip
"""Parameters that never change what is generated."""


class StreamOptions(BaseModel):
    """How a stream reports itself."""

    include_usage: bool = False
    include_obfuscation: bool = False


class ChatRequest(BaseModel):
    """Body of POST /v1/chat/completions; parameters that would change the output and are not listed are refused."""

    model_config = ConfigDict(extra="allow")

    model: str
    messages: list[dict[str, Any]] = Field(min_length=1)
    tools: list[dict[str, Any]] | None = None
    tool_choice: Literal["none", "auto", "required"] | dict[str, Any] | None = None
    reasoning_effort: Effort | None = None
    max_completion_tokens: int | None = Field(None, ge=1)
    max_tokens: int | None = Field(None, ge=1)
    """Older name of the same."""
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    n: int | None = Field(None, ge=1, le=MAX_CHOICES)
    seed: int | None = None
    stop: str | list[str] | None = None
    logprobs: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @field_validator("messages")
    @classmethod
    def _developer_is_system(cls, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """OpenAI's newer name for the system role; the wire has the older one only."""
        return [{**m, "role": "system"} if m.get("role") == "developer" else m for m in messages]

    @property
    def limit(self) -> int | None:
        """Tokens to generate at most, where the request says."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def stops(self) -> tuple[str, ...]:
        """Texts that end the answer, themselves left out."""
        given = (self.stop,) if isinstance(self.stop, str) else self.stop or ()
        return tuple(text for text in given if text)

    @property
    def include_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage

    def check(self, *, sees: bool = False) -> None:
        """Raise ApiError for what types cannot tell. `sees`: the model reads pictures."""
        for name, value in (self.model_extra or {}).items():
            if name not in NEUTRAL and name not in IGNORED:
                raise invalid(f"Unrecognized request argument supplied: {name}", name)
            if name in NEUTRAL and value not in NEUTRAL[name]:
                raise invalid(f"{name} is not supported by this server; leave it out", name, "unsupported_parameter")
        if len(self.stops) > MAX_STOPS:
            raise invalid(f"at most {MAX_STOPS} stop sequences can be given", "stop")
        for index, message in enumerate(self.messages):
            parts = message.get("content")
            kinds = [part.get("type") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
            if any(kind not in (("text", "image_url") if sees else ("text",)) for kind in kinds):
                reads = "text and pictures (image_url)" if sees else "text"
                raise invalid(f"this model reads {reads} only", f"messages.{index}.content")

    def callable_tools(self) -> tuple[list[dict[str, Any]], Literal["none", "auto", "required"]]:
        """The tools that the answer may call, and whether it may or must. Raises ApiError."""
        tools, choice = self.tools or [], self.tool_choice
        if choice is None or isinstance(choice, str):
            if choice == "required" and not tools:
                raise invalid("tool_choice `required` needs tools", "tool_choice")
            return tools, choice or "auto"
        function = choice.get("function")
        name = function.get("name") if isinstance(function, dict) else None
        named = [tool for tool in tools if isinstance(tool.get("function"), dict) and tool["function"].get("name") == name]
        if choice.get("type") != "function" or not named:
            raise invalid(f"tool_choice names the function {name!r}, which is not among the tools", "tool_choice")
        return named, "required"

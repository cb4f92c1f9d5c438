"""OpenAI-style messages, checked once at the door and turned into objects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from ninefold.chat.markers import IMAGE_PLACEHOLDER, image_prompt
from ninefold.core.errors import UserError
from ninefold.core.types import Call

Role = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePart:
    """A picture within a message."""

    prompt: str = IMAGE_PLACEHOLDER
    """What stands for it on the wire."""
    hash: str = ""
    """Names the picture's content."""


Part = str | ImagePart


@dataclass(frozen=True, slots=True, kw_only=True)
class WireCall:
    """A tool call as an assistant message holds it."""

    tool: str
    arguments: Mapping[str, Any]
    raw: str | None = None
    """The arguments' text where it is not JSON; it is shown to the model and never learned from."""
    id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """One message of a conversation, whatever its role."""

    index: int
    """Its place in the conversation as given."""
    role: Role
    content: tuple[Part, ...] = ()
    name: str | None = None
    reasoning: str = ""
    """Assistants: the think channel; white space alone counts as nothing."""
    calls: tuple[WireCall, ...] = ()
    """Assistants."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """Systems: declarations that extend the tool set from here on."""
    tool: str | None = None
    """Tool results: whose, where the message says so."""
    call_id: str | None = None
    """Tool results: the id of the call they answer."""


def tool_call(call: Call, id: str) -> dict[str, Any]:
    """A call as an OpenAI message holds it; `read_messages` takes it back."""
    arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
    return {"id": id, "type": "function", "function": {"name": call.tool, "arguments": arguments}}


def call_id(number: int) -> str:
    """Id of the `number`-th call (from 1) of an assistant message, which its result repeats."""
    return f"call_{number}"


def read_messages(messages: Sequence[Any], *, first: int = 0, lenient: bool = False) -> list[ChatMessage]:
    """Check and convert; `first` is the index of the first message. Raises UserError naming the message at fault.

    `lenient` passes over unknown roles and things that are no messages, as the released encoder does.
    """
    read: list[ChatMessage] = []
    for index, message in enumerate(messages, first):
        if isinstance(message, Mapping) and message.get("role") in ROLES:
            read.append(_read(index, cast(Mapping[str, Any], message)))
        elif not lenient:
            role = message.get("role") if isinstance(message, Mapping) else type(message).__name__
            raise UserError(f"message {index}: role {role!r} is not one of {', '.join(ROLES)}")
    return read


def order_results(messages: Sequence[ChatMessage], before: Sequence[WireCall] = ()) -> list[ChatMessage]:
    """Each run of tool results in the order of the calls they answer, named after them.

    The calls are those of the last assistant message, at first `before`. A run with an unknown id is left as it came.
    """
    ordered: list[ChatMessage] = []
    run: list[ChatMessage] = []
    calls = _places(before)
    for message in messages:
        if message.role == "tool":
            run.append(message)
            continue
        ordered += _ordered_run(run, calls)
        run = []
        ordered.append(message)
        if message.role == "assistant":
            calls = _places(message.calls)
    return ordered + _ordered_run(run, calls)


def _ordered_run(run: list[ChatMessage], calls: Mapping[str, tuple[int, str]]) -> list[ChatMessage]:
    if any(message.call_id not in calls for message in run):
        return run
    placed = [(calls[str(message.call_id)], message) for message in run]
    placed.sort(key=lambda pair: pair[0][0])
    return [replace(message, tool=tool) for (_, tool), message in placed]


def _places(calls: Sequence[WireCall]) -> dict[str, tuple[int, str]]:
    """Call id → (place, tool); the first of equal ids wins."""
    places: dict[str, tuple[int, str]] = {}
    for place, call in enumerate(calls):
        if call.id is not None:
            places.setdefault(call.id, (place, call.tool))
    return places


def _read(index: int, message: Mapping[str, Any]) -> ChatMessage:
    role = cast(Role, message["role"])
    where = f"message {index} ({role})"
    return ChatMessage(
        index=index,
        role=role,
        content=_content(message.get("content"), where),
        name=_text(message.get("name"), where, "name") or None,
        reasoning=_reasoning(message, where) if role == "assistant" else "",
        calls=tuple(_call(c, n, where) for n, c in enumerate(_listed(message.get("tool_calls"), where, "tool_calls"), 1))
        if role == "assistant"
        else (),
        tools=tuple(_listed(message.get("tools"), where, "tools")) if role == "system" else (),
        tool=_text(message.get("tool", message.get("name")), where, "tool") if role == "tool" else None,
        call_id=_identifier(message.get("tool_call_id", message.get("id"))) if role == "tool" else None,
    )


def _listed(value: Any, where: str, name: str) -> Sequence[Any]:
    if not isinstance(value or [], list | tuple):
        raise UserError(f"{where}: {name} must be a list, got {str(value)[:80]!r}")
    return value or ()


def _content(content: Any, where: str) -> tuple[Part, ...]:
    if content is None:
        return ()
    if isinstance(content, str):
        return (content,)
    if not isinstance(content, Sequence):
        raise UserError(f"{where}: content must be a string or a list of parts, got {type(content).__name__}")
    return tuple(_part(part, where) for part in content)


def _part(part: Any, where: str) -> Part:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind in ("image", "image_url"):
        width, height = part.get("width"), part.get("height")
        prompt = IMAGE_PLACEHOLDER
        if isinstance(width, int) and isinstance(height, int):
            prompt = image_prompt(width, height)
        return ImagePart(prompt=prompt, hash=str(part.get("hash", "")))
    if kind == "text" and isinstance(part.get("text"), str):
        return part["text"]
    raise UserError(f"{where}: a content part must be {{type: text, text: …}} or an image, got {str(part)[:80]!r}")


def _reasoning(message: Mapping[str, Any], where: str) -> str:
    text = _text(message.get("reasoning_content") or message.get("reasoning"), where, "reasoning_content") or ""
    return text if text.strip() else ""


def _call(call: Any, number: int, where: str) -> WireCall:
    where = f"{where}, tool call {number}"
    if not isinstance(call, Mapping):
        raise UserError(f"{where}: must be an object with id and function, got {str(call)[:80]!r}")
    function = call.get("function", call)
    tool = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(tool, str):
        raise UserError(f"{where}: function.name is missing")
    arguments, raw = _arguments(function.get("arguments"), where)
    return WireCall(tool=tool, arguments=arguments, raw=raw, id=_identifier(call.get("id")))


def _arguments(arguments: Any, where: str) -> tuple[Mapping[str, Any], str | None]:
    """Arguments, or the raw text of what is no JSON."""
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return {}, None
    if isinstance(arguments, str):
        try:
            parsed = json.loads(arguments, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return {}, arguments
        arguments = parsed
    if not isinstance(arguments, Mapping):
        raise UserError(f"{where}: arguments must be a JSON object, got {str(arguments)[:80]!r}")
    return cast(Mapping[str, Any], arguments), None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _text(value: Any, where: str, field: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise UserError(f"{where}: {field} must be a string, got {type(value).__name__}")


def _identifier(value: Any) -> str | None:
    return None if value is None else str(value)

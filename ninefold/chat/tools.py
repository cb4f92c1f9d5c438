"""Tool declarations and typed arguments on the wire."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ninefold.core.errors import UserError

DECLARE = "# Tools\nHere are the available tools, described in JSONSchema.\n\n```json\n"
EXTEND = (
    "## New Tools Available\nThe system dynamically extends the toolset via lazy-loading.\n"
    "You have access to all existing and extended tools.\nHere are the specs for the extended tools.\n\n```json\n"
)


JSON_TYPES: Mapping[str, str] = {
    "string": "string",
    "number": "number",
    "integer": "number",
    "boolean": "boolean",
    "null": "null",
    "object": "object",
    "array": "array",
}
"""JSON Schema type → type on the wire."""


def declaration(tools: Sequence[Mapping[str, Any]], *, extends: bool = False) -> str:
    """Body of a tool-declare message; `extends` for one in mid-conversation."""
    return f"{EXTEND if extends else DECLARE}{compact_json(list(tools))}\n```"


def compact_json(value: Any) -> str:
    """Keys sorted at every depth, no white space, characters kept."""
    return json.dumps(_sorted(value), ensure_ascii=False, separators=(",", ":"))


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        mapping = cast(Mapping[str, Any], value)
        return {key: _sorted(mapping[key]) for key in sorted(mapping)}
    if isinstance(value, list | tuple):
        return [_sorted(item) for item in cast(Sequence[Any], value)]
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument that a declared tool takes."""

    key: str
    kinds: tuple[str, ...]
    """JSON Schema types it may have."""
    required: bool
    choices: tuple[str, ...] = ()
    """The only texts allowed, where the schema lists strings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What a tool declaration allows a call to be."""

    tool: str
    arguments: tuple[Argument, ...]


def read_declaration(schema: Mapping[str, Any]) -> Declared:
    """The calls that an OpenAI function declaration allows, by the types at its top level. Raises UserError."""
    function = schema.get("function", schema)
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise UserError(f"a tool declaration needs function.name, got {str(schema)[:80]!r}")
    name = function["name"]
    parameters = _object(function.get("parameters"), f"parameters of tool {name!r}")
    properties = _object(parameters.get("properties"), f"properties of tool {name!r}")
    required = parameters.get("required") or ()
    if not isinstance(required, list | tuple):
        raise UserError(f"`required` of tool {name!r} must be a list of names, got {str(required)[:80]!r}")
    arguments = tuple(_argument(key, properties[key], key in required) for key in sorted(properties))
    return Declared(tool=name, arguments=arguments)


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UserError(f"{what} must be an object, got {str(value)[:80]!r}")
    return cast(Mapping[str, Any], value)


def _argument(key: str, schema: Any, required: bool) -> Argument:
    given = schema.get("type") if isinstance(schema, Mapping) else None
    kinds = tuple(JSON_TYPES) if given is None else tuple(given) if isinstance(given, list | tuple) else (given,)
    if unknown := [kind for kind in kinds if not isinstance(kind, str) or kind not in JSON_TYPES]:
        raise UserError(f"argument {key!r}: type {unknown[0]!r} is not one of {', '.join(JSON_TYPES)}")
    if "number" in kinds:
        kinds = tuple(kind for kind in kinds if kind != "integer")
    listed = schema.get("enum") if isinstance(schema, Mapping) else None
    choices = tuple(dict.fromkeys(listed)) if listed and all(isinstance(choice, str) for choice in listed) else ()
    return Argument(key=key, kinds=("string",) if choices else kinds, required=required, choices=choices)


def wire_type(value: Any) -> str:
    """Name of an argument's type on the wire."""
    if isinstance(value, bool):
        return "boolean"
    if value is None:
        return "null"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, Mapping) else "array"


def wire_value(value: Any) -> str:
    """An argument's text: strings raw, all else JSON with the default separators."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def read_value(text: str, kind: str | None) -> Any:
    """The argument that `text` states; no kind means string, an unknown one JSON. Raises ValueError if it is not sound JSON.

    Sound: finite numbers and characters that every program can store, since a call is executed elsewhere.
    """
    if kind is None or kind == "string":
        return text
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # UnicodeEncodeError, a ValueError, on a lone surrogate
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is out of range")
    return value

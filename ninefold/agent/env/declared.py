"""Tools as the rest of the world declares them, by JSON schemas, to and from the canonical form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ninefold.core.protocols import Tool

KINDS = {
    "integer": "number",
    "number": "number",
    "string": "string",
    "boolean": "boolean",
    "object": "object",
    "array": "array",
}
"""JSON type → type of a canonical parameter."""
_TOLD = 200
"""Characters that are said of one parameter."""


def tool_of(name: str, description: str, schema: Mapping[str, Any]) -> Tool:
    """The tool of a declaration; what its schema says of parameters beyond their types goes into the description."""
    properties: Mapping[str, Mapping[str, Any]] = schema.get("properties", {})
    needed = schema.get("required", ())
    kinds = {parameter: _kind(told) for parameter, told in properties.items()}
    said = [f"{parameter}: {text}" for parameter, told in properties.items() if (text := _said(told))]
    return Tool(
        name=name,
        description="\n".join([description.strip(), *said]).strip(),
        parameters={parameter: kind for parameter, kind in kinds.items() if parameter in needed},
        optional={parameter: kind for parameter, kind in kinds.items() if parameter not in needed},
    )


def schema_of(tool: Tool) -> dict[str, Any]:
    """JSON schema of its arguments."""
    kinds = {**tool.parameters, **tool.optional}
    return {
        "type": "object",
        "properties": {parameter: {"type": kind} for parameter, kind in kinds.items()},
        "required": list(tool.parameters),
        "additionalProperties": False,
    }


def record_of(tool: Tool) -> dict[str, Any]:
    """A tool as JSON, for the data of the task that brings it; `tools_of` takes it back."""
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
        "optional": dict(tool.optional),
    }


def tools_of(records: Sequence[Mapping[str, Any]]) -> tuple[Tool, ...]:
    """The tools of such records."""
    return tuple(Tool(**record) for record in records)


def _kind(schema: Mapping[str, Any]) -> str:
    """The first type that it may have and that is not null; a string where it says none."""
    choices = [schema, *schema.get("anyOf", ()), *schema.get("oneOf", ())]
    named = [kind for choice in choices for kind in _types(choice) if kind in KINDS]
    return KINDS[named[0]] if named else "string"


def _types(schema: Mapping[str, Any]) -> Sequence[str]:
    kind = schema.get("type", ())
    return (kind,) if isinstance(kind, str) else kind


def _said(schema: Mapping[str, Any]) -> str:
    choices = schema.get("enum")
    parts = [schema.get("description", ""), f"one of {', '.join(map(str, choices))}" if choices else ""]
    return "; ".join(part.strip() for part in parts if part)[:_TOLD]

"""Tool declarations and typed arguments on the wire."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

DECLARE = "# Tools\nHere are the available tools, described in JSONSchema.\n\n```json\n"
EXTEND = (
    "## New Tools Available\nThe system dynamically extends the toolset via lazy-loading.\n"
    "You have access to all existing and extended tools.\nHere are the specs for the extended tools.\n\n```json\n"
)


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

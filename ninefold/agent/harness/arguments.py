"""What is wrong with the arguments of a call, in words for whoever made it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

SHOWN = 40
"""Characters that are shown of what was given."""

_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}


def fits(value: Any, kind: str) -> bool:
    """Whether a value off the wire is of a JSON type."""
    return isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def fault(arguments: Mapping[str, Any], required: Mapping[str, str], optional: Mapping[str, str]) -> str | None:
    """The first argument that does not fit, what was given and what is expected; None where all fit.

    `required` and `optional` are parameter → JSON type.
    """
    known = {**required, **optional}
    for name, value in arguments.items():
        if name not in known:
            return unknown(name, known)
        if not fits(value, known[name]):
            return f"{name} is {shown(value)}, not of type {known[name]}"
    missing = next((name for name in required if name not in arguments), None)
    return None if missing is None else f"{missing} is missing ({required[missing]})"


def unknown(name: str, known: Mapping[str, str]) -> str:
    """What is said of an argument that has no parameter among these."""
    there = ", ".join(f"{parameter} ({kind})" for parameter, kind in known.items())
    told = name if name.isidentifier() and len(name) <= SHOWN else shown(name)
    return f"{told} is not a parameter; " + (f"there are {there}" if there else "there are none")


def shown(value: Any) -> str:
    """The beginning of a value's JSON, all of it ASCII."""
    text = json.dumps(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"

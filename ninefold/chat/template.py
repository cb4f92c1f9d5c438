"""XTML as a Jinja template, for programs that know no other way; the renderer is the reference."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TEMPLATE = Path(__file__).with_name("chat_template.jinja")


def decoded(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A copy in which the arguments of tool calls are objects, as the template needs them; text that is no JSON stays."""
    copied: list[dict[str, Any]] = copy.deepcopy([dict(message) for message in messages])
    for message in copied:
        for call in message.get("tool_calls") or ():
            function = call.get("function", call)
            if isinstance(function.get("arguments"), str):
                function["arguments"] = _object(function["arguments"])
    return copied


def _object(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text

"""What every world checks before it executes a call."""

from __future__ import annotations

from collections.abc import Sequence

from ninefold.core.protocols import Tool
from ninefold.core.types import Call

LONGEST = 8_192
"""Characters of one argument."""


def refusal(call: Call, offered: Sequence[Tool]) -> str | None:
    """What to tell the policy where its call cannot be executed; None where it can.

    A call that passes names an offered tool and carries exactly its parameters, all of them encodable strings.
    """
    if call.error is not None:
        return f"error: {call.error[:200]}"
    tool = next((tool for tool in offered if tool.name == call.tool), None)
    if tool is None:
        return "error: no such tool"
    if set(call.arguments) != set(tool.parameters):
        return "error: bad arguments"
    if not all(isinstance(value, str) and _is_text(value) for value in call.arguments.values()):
        return "error: bad arguments"
    return None


def _is_text(value: str) -> bool:
    if len(value) > LONGEST or "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True

"""What every world checks before it executes a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ninefold.agent.harness.arguments import fault
from ninefold.agent.harness.tools import BAD_ARGUMENTS
from ninefold.core.protocols import Tool
from ninefold.core.types import Call

LONGEST = 8_192
"""Characters of one argument."""


def refusal(call: Call, offered: Sequence[Tool], longest: int = LONGEST) -> str | None:
    """What to tell the policy where its call cannot be executed; None where it can.

    A call that passes names an offered tool and carries exactly its parameters, all of them encodable strings of at most
    `longest` characters.
    """
    if call.error is not None:
        return f"error: {call.error[:200]}"
    tool = next((tool for tool in offered if tool.name == call.tool), None)
    if tool is None:
        return "error: no such tool"
    wrong = fault(call.arguments, dict.fromkeys(tool.parameters, "string"), {}) or _not_text(call.arguments, longest)
    return None if wrong is None else f"error: {BAD_ARGUMENTS}: {wrong}"


def _not_text(arguments: Mapping[str, str], longest: int) -> str | None:
    for name, value in arguments.items():
        if len(value) > longest:
            return f"{name} has {len(value)} characters, {longest} at most are taken"
        if "\0" in value or not _is_text(value):
            return f"{name} holds characters that are no text"
    return None


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True

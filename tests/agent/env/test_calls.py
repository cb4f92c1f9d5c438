"""What a world says of a call that it cannot execute: which argument, what was given, what is expected."""

from __future__ import annotations

from typing import Any

import pytest

from ninefold.agent.env.calls import LONGEST, refusal
from ninefold.agent.harness.arguments import SHOWN
from ninefold.core.protocols import Tool
from ninefold.core.types import Call

WAIT = Tool(name="wait", description="", parameters={"until": "string"})
NOW = Tool(name="now", description="", parameters={})


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("wait", {}, "until is missing (string)"),
        ("wait", {"until": 3}, "until is 3, not of type string"),
        ("wait", {"until": ["x"] * 90}, f"until is {str(['x'] * 90).replace(chr(39), chr(34))[:SHOWN]}…, not of type string"),
        ("wait", {"util": "x"}, "util is not a parameter; there are until (string)"),
        ("wait", {"\ud800": "x"}, '"\\ud800" is not a parameter; there are until (string)'),
        ("now", {"zone": "x"}, "zone is not a parameter; there are none"),
        ("wait", {"until": "x" * (LONGEST + 1)}, f"until has {LONGEST + 1} characters, {LONGEST} at most are taken"),
        ("wait", {"until": "\ud800"}, "until holds characters that are no text"),
        ("wait", {"until": "a\0"}, "until holds characters that are no text"),
    ],
)
def test_the_argument_at_fault_is_named(tool: str, arguments: dict[str, Any], told: str) -> None:
    refused = refusal(Call(tool=tool, arguments=arguments), (WAIT, NOW))
    assert refused == f"error: bad arguments: {told}"
    assert refused.encode()
    assert refusal(Call(tool="wait", arguments={"until": "noon"}), (WAIT, NOW)) is None

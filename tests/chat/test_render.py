"""The renderer against the conformance vectors, and the places where the specification is stricter than they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ninefold.chat.render import Options, render
from ninefold.core.errors import UserError

STRICTER = {"unknown_role_dropped", "non_dict_message_skipped", "image_placeholder_in_reasoning_consumed"}
"""Cases in which the released encoder does what the specification forbids; `lenient` follows it."""


def cases(golden: Path) -> list[dict[str, Any]]:
    return json.loads((golden / "xtml" / "render.json").read_text())["cases"]


def pieces(kwargs: dict[str, Any], *, lenient: bool = False) -> list[list[Any]]:
    given = dict(kwargs)
    messages = given.pop("messages")
    names = {"thinking_effort": "effort", "add_generation_prompt": "generation_prefix"}
    options = Options(**{names.get(k, k): v for k, v in given.items()}, lenient=lenient)
    return [[p.text, p.control] for message in render(messages, options) for p in message.pieces]


def test_rendered_cases(golden: Path) -> None:
    rendered = [case for case in cases(golden) if "error" not in case]
    assert len(rendered) >= 70
    for case in rendered:
        assert pieces(case["kwargs"], lenient=case["name"] in STRICTER) == case["segments"], case["name"]


def test_error_cases(golden: Path) -> None:
    refused = [case for case in cases(golden) if "error" in case]
    assert refused
    for case in refused:
        with pytest.raises(UserError):
            pieces(case["kwargs"])


def test_stricter_than_the_release(golden: Path) -> None:
    for case in cases(golden):
        if case["name"] in STRICTER:
            with pytest.raises(UserError):
                pieces(case["kwargs"])

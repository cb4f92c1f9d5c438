"""The parser against the conformance vectors, and on whatever a model may write."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ninefold.chat.markers import CLOSE, CONTROL_TOKENS, END_OF_MSG, OPEN, SEP
from ninefold.chat.parse import RAW_LIMIT, CallClosed, Parser, TextDelta, parse
from ninefold.chat.tokenizer import Tokenizer
from ninefold.chat.xtml import wire_phrases
from ninefold.core.protocols import ParsedMessage

TOKENIZER = Tokenizer.train(["a small text for a small tokenizer, he said hello to the shell"] * 9, wire_phrases(), 400)
CONTROL = re.compile(f"({'|'.join(map(re.escape, CONTROL_TOKENS))})")


def ids_of(text: str, tokenizer: Tokenizer = TOKENIZER) -> list[int]:
    """Ids of a text in which markers are spelled out."""
    ids: list[int] = []
    for run in CONTROL.split(text):
        ids += [tokenizer.control[run]] if run in tokenizer.control else tokenizer.encode(run).tolist()
    return ids


def as_expected(message: ParsedMessage) -> dict[str, Any]:
    calls: list[dict[str, Any]] = []
    for call in message.calls:
        record: dict[str, Any] = {"name": call.tool or None, "arguments": dict(call.arguments)}
        calls.append(record if call.error is None else {**record, "error": call.error.split(":")[0]})
    return {"reasoning": message.think or None, "content": message.response, "tool_calls": calls}


def test_golden_cases(golden: Path) -> None:
    cases = json.loads((golden / "xtml" / "parse.json").read_text())["cases"]
    assert len(cases) >= 25
    for case in cases:
        expected = dict(case["expected"])
        message = parse(TOKENIZER, ids_of(case["output"]), thinking=case["thinking"])
        got = as_expected(message)
        if "errors" in expected:
            got["errors"] = list(message.problems)
        expected.pop("rule", None)
        assert got == expected, case["name"]

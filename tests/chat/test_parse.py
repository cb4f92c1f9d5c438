"""The parser against the conformance vectors, and on whatever a model may write."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninefold.chat.markers import CONTROL_TOKENS
from ninefold.chat.parse import RAW_LIMIT, CallClosed, Event, Parser, TextDelta, parse
from ninefold.chat.tokenizer import Tokenizer
from ninefold.chat.xtml import wire_phrases
from ninefold.core.protocols import ParsedMessage
from ninefold.core.types import Call

TOKENIZER = Tokenizer.train(["a small text for a small tokenizer, he said hello to the shell"] * 9, wire_phrases(), 400)
CHANNELS = ("think", "response")
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


MARKERS = ["<|open|>", "<|sep|>", "<|close|>", "<|end_of_msg|>", "<|pad|>", "<|media_pad|>"]
HEADERS = ["think", "response", "tools", "message", "call", "argument", "json", 'call tool="f" index="1"', 'argument key="k"']
MORE = ['argument key="k" type="number"', "1", "{", " ", "\n", "hello", "日", "\\ud800", "nan", '"', "bogus", 'call tool="']
fragments = st.lists(st.sampled_from(MARKERS + HEADERS + MORE), max_size=60)
well_formed = st.lists(
    st.sampled_from(
        [
            *(f"<|open|>{header}<|sep|>" for header in HEADERS),
            *(f"<|close|>{tag}<|sep|>" for tag in HEADERS[:7]),
            *MORE,
            "<|end_of_msg|>",
        ]
    ),
    max_size=40,
)


@given(fragments | well_formed, st.randoms(), st.booleans())
def test_anything_parses_and_streams_alike(pieces: list[str], random: Any, thinking: bool) -> None:
    ids = ids_of("".join(pieces))
    whole = parse(TOKENIZER, ids, thinking=thinking)
    parser = Parser(TOKENIZER, thinking=thinking)
    events: list[Event] = []
    at = 0
    while at < len(ids):
        size = random.choice([1, 1, 2, 7])
        events += parser.feed(ids[at : at + size])
        at += size
    events += parser.feed([])
    streamed = parser.finish()
    assert streamed == whole
    shown = {
        channel: "".join(e.text for e in events if isinstance(e, TextDelta) and e.channel == channel) for channel in CHANNELS
    }
    assert whole.think.startswith(shown["think"])
    assert (whole.response or "").startswith(shown["response"])
    assert [e.call for e in events if isinstance(e, CallClosed)] == list(whole.calls)
    assert all(c.error is None or len(c.error) <= RAW_LIMIT + 30 for c in whole.calls)


@given(st.lists(st.integers(0, TOKENIZER.vocab_size - 1), max_size=80))
def test_random_ids_never_raise(ids: list[int]) -> None:
    message = parse(TOKENIZER, ids)
    assert message.think_tokens <= len(ids)


def call_of(body: str) -> Call:
    """The only call of a message whose call element holds `body`."""
    message = parse(TOKENIZER, ids_of(f"{BEFORE}{body}<|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>"))
    (call,) = message.calls
    return call


BEFORE = '<|close|>think<|sep|><|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|>'


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("number", "nan"),
        ("number", "1e999"),
        ("number", ""),
        ("object", '{"a": Infinity}'),
        ("object", '{"a": "\\ud800"}'),
        ("array", "[" * 100_000),
        ("number", "9" * 5000),
        ("boolean", "True"),
        ("strange", "no json"),
    ],
)
def test_unsound_json_is_an_error(kind: str, text: str) -> None:
    """T7–T9: never dispatched, never raised; the raw text is kept, in the error only its beginning."""
    call = call_of(f'<|open|>argument key="k" type="{kind}"<|sep|>{text}<|close|>argument<|sep|>')
    assert call.error is not None
    assert call.error.startswith("bad_json: argument 'k'")
    assert call.arguments == {"k": text}
    assert len(call.error) < RAW_LIMIT + 30


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ('<|open|>json type="object"<|sep|>{"a": 1}<|close|>json<|sep|>', "json_block"),
        ('words<|open|>argument key="k"<|sep|>1<|close|>argument<|sep|>', "stray_text"),
        ('<|open|>argument key="k" key="l"<|sep|>1<|close|>argument<|sep|>', "malformed_attributes"),
        ('<|open|>argument kind="k"<|sep|>1<|close|>argument<|sep|>', "malformed_attributes"),
        ("<|open|>argument key=k<|sep|>1<|close|>argument<|sep|>", "malformed_attributes"),
        ('<|open|>argument key="k"<|sep|>1', "unclosed"),
        ('<|open|>argument key="k"<|sep|>1<|open|>argument key="l"<|sep|>2<|close|>argument<|sep|>', "unclosed"),
        ("<|close|>response<|sep|>", "mismatched_close"),
        ("<|media_pad|>", "stray_text"),
    ],
)
def test_faults_within_a_call(body: str, kind: str) -> None:
    error = call_of(body).error
    assert error is not None
    assert error.split(":")[0] == kind


def test_a_call_left_open_does_not_exist() -> None:
    for rest in ("<|end_of_msg|>", "<|close|>tools<|sep|><|end_of_msg|>", "<|open|>response<|sep|>", ""):
        message = parse(TOKENIZER, ids_of(BEFORE + rest))
        assert message.calls == ()
        assert "unclosed" in message.problems or "truncated" in message.problems


def test_nothing_follows_the_end() -> None:
    parser = Parser(TOKENIZER)
    parser.feed(ids_of("a<|close|>think<|sep|><|close|>message<|sep|><|end_of_msg|>b"))
    assert parser.feed(ids_of("<|open|>response<|sep|>c")) == []
    assert parser.finish().response is None


def test_a_character_split_over_tokens_streams_whole() -> None:
    ids = ids_of("日")
    assert len(ids) == 3
    parser = Parser(TOKENIZER)
    texts = [[e.text for e in parser.feed([i]) if isinstance(e, TextDelta)] for i in ids]
    assert texts == [[], [], ["日"]]

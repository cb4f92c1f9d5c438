"""Conversations as token segments: prefixes, masks, safety, round trips (known pains T1–T9)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninefold.chat.markers import CONTROL_TOKENS
from ninefold.chat.tokenizer import Tokenizer
from ninefold.chat.xtml import Xtml, call_id, wire_phrases
from ninefold.core.errors import UserError
from ninefold.core.protocols import ChatFormat
from ninefold.core.types import Call, Row, Segment, append

TOKENIZER = Tokenizer.train(["he hello llo hell o help self shell message the response"] * 9, wire_phrases(), 420)
XTML: ChatFormat = Xtml(TOKENIZER)
FORMS = [Xtml(TOKENIZER), Xtml(TOKENIZER, joined=False), Xtml(TOKENIZER, thinking=False)]
SEARCH = {"type": "function", "function": {"name": "search", "parameters": {"properties": {"q": {"type": "string"}}}}}

hostile = st.text(max_size=12) | st.sampled_from([*CONTROL_TOKENS, "<|close|>think<|sep|>", 'he"&amp;', "hello", " "])
json_value = st.none() | st.booleans() | st.integers(-99, 99) | hostile | st.lists(st.integers(0, 9), max_size=2)
calls = st.lists(st.tuples(hostile.filter(bool), st.dictionaries(hostile, json_value, max_size=2)), max_size=3)


def ids_of(segments: list[Segment]) -> list[int]:
    return append(Row(), *segments).ids.tolist()


@st.composite
def assistants(draw: st.DrawFn) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": draw(hostile)}
    message["reasoning_content"] = draw(hostile.filter(lambda text: text == "" or bool(text.strip())))
    made = [
        {"id": call_id(n), "function": {"name": tool, "arguments": arguments}}
        for n, (tool, arguments) in enumerate(draw(calls), 1)
    ]
    return {**message, "tool_calls": made} if made else message


@st.composite
def turns(draw: st.DrawFn) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Assistant messages, each with what follows it."""
    pairs: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    for _ in range(draw(st.integers(1, 3))):
        message = draw(assistants())
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": draw(hostile)} for call in message.get("tool_calls", [])
        ]
        pairs.append((message, draw(st.permutations(results)) if results else [{"role": "user", "content": draw(hostile)}]))
    return pairs


@given(turns(), st.sampled_from(FORMS), st.sampled_from(["low", "high", "max"]))
def test_turns_extend_the_same_ids(pairs: list[Any], xtml: Xtml, effort: Any) -> None:
    """Open, sample, extend, sample, … gives what rendering the whole at once gives, and each turn is a prefix of the next."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "hello"}]
    row = ids_of(xtml.open(messages, tools=[SEARCH], effort=effort))
    for message, following in pairs:
        sampled = xtml.completion(message)
        assert sampled[-1] == xtml.stop_ids[0]
        parsed = xtml.parse(sampled)
        row += sampled.tolist()
        messages.append(message)
        extension = xtml.extend(following, message=len(messages), calls=parsed.calls)
        assert sorted(s.message for s in extension) == list(range(len(messages), len(messages) + len(following) + 1))
        row += ids_of(extension)
        messages += following
        assert row == ids_of(xtml.open(messages, tools=[SEARCH], effort=effort))


@given(assistants(), st.sampled_from(FORMS))
def test_parse_inverts_completion(message: dict[str, Any], xtml: Xtml) -> None:
    parsed = xtml.parse(xtml.completion(message))
    assert parsed.problems == ()
    assert parsed.think == (message["reasoning_content"] if xtml.thinking else "")
    assert parsed.think_tokens == (len(TOKENIZER.encode(message["reasoning_content"])) if xtml.thinking else 0)
    assert parsed.response == (message["content"] or None)
    wanted = [call["function"] for call in message.get("tool_calls", [])]
    assert [(c.tool, dict(c.arguments), c.error) for c in parsed.calls] == [(f["name"], f["arguments"], None) for f in wanted]


@given(st.lists(hostile, min_size=5, max_size=5))
def test_content_never_becomes_structure(texts: list[str]) -> None:
    """The number of control tokens is that of the same conversation with harmless content."""

    def rendered(a: str, b: str, c: str, d: str, e: str) -> list[int]:
        tool = {"function": {"name": "f", "description": a, "parameters": {"properties": {}}}}
        made = [{"id": "1", "function": {"name": "f", "arguments": {"x": d}}}]
        messages = [
            {"role": "system", "content": [{"type": "text", "text": b}]},
            {"role": "user", "content": c, "name": "n" + a},
            {"role": "assistant", "content": e, "reasoning_content": b, "tool_calls": made},
            {"role": "tool", "content": e, "tool_call_id": "1"},
        ]
        return ids_of(XTML.open(messages, tools=[tool], effort="low"))

    def structure(ids: list[int]) -> list[int]:
        return [i for i in ids if i < len(CONTROL_TOKENS)]

    assert structure(rendered(*texts)) == structure(rendered("a", "b", "c", "d", "e"))


def test_sampled_ids_stay_as_they_are() -> None:
    """T1: " he" + "llo" would merge to "hello" if decoded and encoded again."""
    parts = TOKENIZER.encode(" he").tolist() + TOKENIZER.encode("llo").tolist()
    assert parts != TOKENIZER.encode(" hello").tolist()
    prompt = XTML.open([{"role": "user", "content": "hi"}], tools=(), effort="low")
    sampled = np.array([*parts, *XTML.completion({"role": "assistant", "content": "x"})], np.int32)
    logprobs = np.zeros(len(sampled), np.float32)
    segment = Segment(ids=sampled, source="sampled", message=1, logprobs=logprobs, policy_version=0, finish_reason="stop")
    more = XTML.extend([{"role": "user", "content": "and?"}], message=2)
    row = append(Row(), *prompt, segment, *more)
    start = sum(len(s.ids) for s in prompt)
    assert row.ids[start : start + len(sampled)].tolist() == sampled.tolist()
    assert XTML.parse(sampled).think == " hello"
    assert row.loss_mask.sum() == len(sampled)


def test_conversation_masks() -> None:
    """T4: exactly what the assistant writes, its end token included, in every turn. T3: each message stands there once."""
    messages = [
        {"role": "system", "content": "rules"},
        {"role": "user", "content": "first question"},
        {"role": "assistant", "reasoning_content": "first thought", "content": "first answer", "name": "bot"},
        {"role": "user", "content": "second question"},
        {"role": "assistant", "content": "second answer"},
    ]
    xtml = Xtml(TOKENIZER)
    segments = xtml.conversation(messages, tools=[SEARCH], effort="high")
    assert [s.message for s in segments] == [-1, -1, 0, 1, 2, 3, 4]
    assert all(not s.loss_mask.any() for s in segments if s.role != "assistant")
    for segment in segments:
        if segment.role == "assistant":
            written = xtml.completion({k: v for k, v in messages[segment.message].items() if k != "name"})
            assert segment.ids[segment.loss_mask].tolist() == written.tolist()
            assert segment.loss_mask[-len(written) :].all()
    text = xtml.decode(append(Row(), *segments).ids)
    for words in ("rules", "first question", "first thought", "first answer", "second question", "second answer"):
        assert text.count(words) == 1


def test_malformed_arguments_are_shown_but_not_learned() -> None:
    made = [{"function": {"name": "f", "arguments": '{"a": hello'}}, {"function": {"name": "f", "arguments": {"a": 1}}}]
    (segment,) = Xtml(TOKENIZER).conversation([{"role": "assistant", "content": "", "tool_calls": made}])[1:]
    hidden = TOKENIZER.decode(segment.ids[~segment.loss_mask])
    assert hidden.endswith('think<|sep|><|open|>json type="object"<|sep|>{"a": hello<|close|>json<|sep|>')
    assert '<|open|>call tool="f" index="1"<|sep|><|close|>call<|sep|>' in TOKENIZER.decode(segment.ids[segment.loss_mask])


def test_malformed_calls_are_answered_under_their_index() -> None:
    """T7, T8: the call is not dispatched, and its error comes back as the result with the same index."""
    given_calls = [Call(tool="", arguments={}, error="missing_tool"), Call(tool="f", arguments={})]
    results = [{"role": "tool", "content": "error: missing_tool"}, {"role": "tool", "content": "fine"}]
    text = XTML.decode(append(Row(), *XTML.extend(results, message=2, calls=given_calls)).ids)
    assert '<|open|>message role="tool" tool="" index="1"<|sep|>error: missing_tool<|close|>' in text
    assert '<|open|>message role="tool" tool="f" index="2"<|sep|>fine<|close|>' in text


def test_a_picture_is_one_pad() -> None:
    part = {"type": "image_url", "hash": "abc", "width": 640, "height": 480}
    segment = XTML.open([{"role": "user", "content": [part, {"type": "text", "text": "what?"}]}], tools=(), effort="low")[1]
    assert segment.images == ("abc",)
    assert "<|media_begin|>image 640x480<|media_content|><|media_pad|><|media_end|>what?" in XTML.decode(segment.ids)
    assert (segment.ids == TOKENIZER.control["<|media_pad|>"]).sum() == 1
    with pytest.raises(UserError, match="width"):
        XTML.open([{"role": "user", "content": [{"type": "image"}]}], tools=(), effort="low")


@pytest.mark.parametrize(
    ("message", "match"),
    [
        ({"role": "developer", "content": "x"}, "role 'developer'"),
        ({"role": "tool", "content": "x"}, "no call precedes"),
        ({"role": "user", "content": 7}, "content must be"),
        ({"role": "user", "content": [{"type": "audio"}]}, "content part"),
        ({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[1]"}}]}, "JSON object"),
        ({"role": "assistant", "tool_calls": [{"function": {}}]}, "name is missing"),
        ("junk", "role 'str'"),
    ],
)
def test_refused_messages_name_their_fault(message: Any, match: str) -> None:
    with pytest.raises(UserError, match=match):
        XTML.open([message], tools=(), effort="low")


def test_effort() -> None:
    effort: Any = "medium"
    with pytest.raises(UserError, match="medium"):
        XTML.open([], tools=(), effort=effort)
    instruct = Xtml(TOKENIZER, thinking=False).open([], tools=(), effort="low")
    assert TOKENIZER.decode(instruct[0].ids) == '<|open|>message role="assistant"<|sep|><|open|>response<|sep|>'


def test_one_shot_options_stand_last() -> None:
    xtml = Xtml(TOKENIZER)
    question: list[Any] = [{"role": "user", "content": "hello"}]
    without = ids_of(xtml.open(question, tools=(), effort="low")[:-1])
    segments = xtml.open(question, tools=(), effort="low", tool_choice="none", response_format={"type": "json_object"})
    assert ids_of(segments)[: len(without)] == without
    assert "tool_choice=none" in xtml.decode(segments[-3].ids)
    assert "response_format=json_object" in xtml.decode(segments[-2].ids)
    more = xtml.extend(question, message=2, tool_choice="required")
    assert "tool_choice=required" in xtml.decode(more[-2].ids)


def test_a_conversation_is_short(xtml: Xtml) -> None:
    """Spec 12: the wire's phrases come out as single ids."""
    prompt = ids_of(xtml.open([{"role": "user", "content": ""}], tools=(), effort="low"))
    assert len(prompt) == 23
    assert len(xtml.completion({"role": "assistant", "content": ""})) == 13


@settings(max_examples=30)
@given(st.text(max_size=300))
def test_arguments_that_are_no_json_are_kept_whole(raw: str) -> None:
    """T7: whatever text stands for arguments, rendering it is possible or refused by name."""
    made = [{"function": {"name": "f", "arguments": "{" + raw}}]
    ids = XTML.completion({"role": "assistant", "content": "", "tool_calls": made})
    (call,) = XTML.parse(ids).calls
    assert call.error is None or call.error.startswith("json_block")

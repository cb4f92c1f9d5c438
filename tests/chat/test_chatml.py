"""ChatML with `<tool_call>` blocks: the promises that XTML makes, on a tokenizer made here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninefold.chat.chatml import CALL, CALL_END, END, START, THINK, THINK_END, ChatML, default_system
from ninefold.chat.messages import call_id
from ninefold.core.errors import UserError
from ninefold.core.protocols import ChatFormat
from ninefold.core.types import Call, Row, Segment, append
from tests.released import write_tokenizer

SEARCH = {"type": "function", "function": {"name": "search", "parameters": {"properties": {"q": {"type": "string"}}}}}


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> ChatML:
    """As a Hugging Face folder holds it."""
    folder = tmp_path_factory.mktemp("model")
    write_tokenizer(folder)
    return ChatML.of(folder)


hostile = st.text(max_size=12) | st.sampled_from([START, END, "<|im_end|>\n", "</", "hello", " ", THINK_END, CALL_END, '"}'])
free = hostile.filter(lambda text: CALL not in text and not text.startswith(THINK))
json_value = st.none() | st.booleans() | st.integers(-99, 99) | hostile | st.lists(st.integers(0, 9), max_size=2)
calls = st.lists(st.tuples(hostile.filter(bool), st.dictionaries(hostile, json_value, max_size=2)), max_size=3)


@st.composite
def assistants(draw: st.DrawFn) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": draw(free)}
    message["reasoning_content"] = draw(hostile.filter(lambda t: THINK_END not in t and (t == "" or bool(t.strip()))))
    made = [
        {"id": call_id(n), "function": {"name": tool, "arguments": given}} for n, (tool, given) in enumerate(draw(calls), 1)
    ]
    return {**message, "tool_calls": made} if made else message


@st.composite
def turns(draw: st.DrawFn) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Assistant messages, each with what follows it."""
    pairs: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    for _ in range(draw(st.integers(1, 3))):
        message = draw(assistants())
        results = [{"role": "tool", "tool_call_id": c["id"], "content": draw(hostile)} for c in message.get("tool_calls", [])]
        pairs.append((message, draw(st.permutations(results)) if results else [{"role": "user", "content": draw(hostile)}]))
    return pairs


def ids_of(segments: list[Segment]) -> list[int]:
    return append(Row(), *segments).ids.tolist()


@given(turns(), st.sampled_from(["low", "high", "max"]))
def test_turns_extend_the_same_ids(chat: ChatFormat, pairs: list[Any], effort: Any) -> None:
    """Open, sample, extend, sample, … gives what rendering the whole at once gives, and each turn is a prefix of the next."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "hello"}]
    row = ids_of(chat.open(messages, tools=[SEARCH], effort=effort))
    for message, following in pairs:
        sampled = chat.completion(message)
        assert sampled[-1] == chat.stop_ids[0]
        row += sampled.tolist()
        messages.append(message)
        extension = chat.extend(following, message=len(messages), calls=chat.parse(sampled).calls)
        assert sorted(s.message for s in extension) == list(range(len(messages), len(messages) + len(following) + 1))
        row += ids_of(extension)
        messages += following
        assert row == ids_of(chat.open(messages, tools=[SEARCH], effort=effort))


@given(assistants())
def test_parse_inverts_completion(chat: ChatML, message: dict[str, Any]) -> None:
    parsed = chat.parse(chat.completion(message))
    assert parsed.problems == ()
    assert parsed.think == message["reasoning_content"]
    assert (parsed.think_tokens > 0) == bool(parsed.think)
    assert parsed.response == (message["content"] or None)
    wanted = [call["function"] for call in message.get("tool_calls", [])]
    assert [(c.tool, dict(c.arguments), c.error) for c in parsed.calls] == [(f["name"], f["arguments"], None) for f in wanted]


@given(st.lists(hostile, min_size=4, max_size=4))
def test_content_never_becomes_structure(chat: ChatML, texts: list[str]) -> None:
    """The number of control tokens is that of the same conversation with harmless content."""

    def structure(a: str, b: str, c: str, d: str) -> list[int]:
        tool = {"function": {"name": "f", "description": a, "parameters": {"properties": {}}}}
        made = [{"id": "1", "function": {"name": "f", "arguments": {"x": d}}}]
        messages = [
            {"role": "system", "content": b},
            {"role": "user", "content": c},
            {"role": "assistant", "content": "", "tool_calls": made},
            {"role": "tool", "content": a, "tool_call_id": "1"},
        ]
        control = set(chat.tokenizer.control.values())
        return [i for i in ids_of(chat.open(messages, tools=[tool], effort="low")) if i in control]

    assert structure(*texts) == structure("a", "b", "c", "d")


@given(st.lists(st.integers(0, 9999), max_size=40))
def test_whatever_is_generated_parses(chat: ChatML, numbers: list[int]) -> None:
    ids = [number % chat.tokenizer.vocab_size for number in numbers]
    message = chat.parse(np.array(ids, np.int32))
    assert message.think_tokens <= len(ids)
    assert ("truncated" in message.problems) == (chat.stop_ids[0] not in ids)


def test_masks_are_what_the_policy_writes(chat: ChatML) -> None:
    messages = [
        {"role": "user", "content": "first question"},
        {"role": "assistant", "reasoning_content": "thought", "content": "first answer"},
        {"role": "user", "content": "second question"},
        {"role": "assistant", "content": "second answer"},
    ]
    segments = chat.conversation(messages, tools=[SEARCH], effort="high")
    assert [s.message for s in segments] == [-1, 0, 1, 2, 3]
    for segment in segments:
        learned = segment.ids[segment.loss_mask].tolist()
        assert learned == (chat.completion(messages[segment.message]).tolist() if segment.role == "assistant" else [])
    whole = ids_of(chat.open(messages[:-1], tools=[SEARCH], effort="high")) + chat.completion(messages[-1]).tolist()
    assert ids_of(segments) == whole


def test_it_is_the_template_of_the_model(chat: ChatML) -> None:
    """But for the effort, which the template knows nothing of."""
    text = chat.decode(np.array(ids_of(chat.open([{"role": "user", "content": "hi"}], tools=(), effort="low")), np.int32))
    wanted = f"{START}system\nYou are kind.{END}\n{START}user\nhi{END}\n{START}assistant\n"
    assert text == wanted.replace("kind.", "kind.\nReasoning effort: low")


def as_ids(chat: ChatML, text: str) -> np.ndarray:
    return np.array([*chat.tokenizer.encode(text).tolist(), chat.stop_ids[0]], np.int32)


@pytest.mark.parametrize(
    ("text", "errors", "problems"),
    [
        ("<tool_call>{bad}</tool_call>", ["bad_json"], ()),
        ("<tool_call>[1]</tool_call>", ["bad_call"], ()),
        ('<tool_call>{"name": 1}</tool_call>', ["bad_call"], ()),
        ('<tool_call>{"name": "f", "arguments": [1]}</tool_call>', ["bad_call"], ()),
        ('<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>\n', [None], ()),
        ('<tool_call>{"name": "f"}</tool_call> so <tool_call>{"name": "g"}</tool_call>', [None, None], ("stray_text",)),
        ('<tool_call>{"name": "f"', [], ("unclosed",)),
        ("<think>and so on", [], ("unclosed",)),
    ],
)
def test_malformed_messages(chat: ChatML, text: str, errors: list[str | None], problems: tuple[str, ...]) -> None:
    message = chat.parse(as_ids(chat, text))
    assert [call.error and call.error.split(":")[0] for call in message.calls] == errors
    assert message.problems == problems


def test_malformed_calls_are_answered_in_their_order(chat: ChatML) -> None:
    given_calls = [Call(tool="", arguments={}, error="bad_json"), Call(tool="f", arguments={})]
    results = [
        {"role": "tool", "content": "fine", "tool_call_id": call_id(2)},
        {"role": "tool", "content": "no", "tool_call_id": call_id(1)},
    ]
    text = chat.decode(append(Row(), *chat.extend(results, message=2, calls=given_calls)).ids)
    assert text == f"\n{START}tool\nno{END}\n{START}tool\nfine{END}\n{START}assistant\n"


@pytest.mark.parametrize(
    ("message", "match"),
    [
        ({"role": "assistant", "content": f"a {CALL}"}, "would be read as reasoning or a call"),
        ({"role": "assistant", "content": THINK}, "would be read as reasoning or a call"),
        ({"role": "assistant", "content": "", "reasoning_content": f"a{THINK_END}"}, "would end it"),
        ({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{no"}}]}, "no JSON object"),
        ({"role": "user", "content": "x"}, "only an assistant message"),
        ({"role": "assistant", "content": [{"type": "image"}]}, "no picture"),
    ],
)
def test_what_cannot_be_written_is_refused(chat: ChatML, message: Any, match: str) -> None:
    with pytest.raises(UserError, match=match):
        chat.completion(message)


@pytest.mark.parametrize("template", ["{{ messages[0]['content'] }}", "{{ raise_exception('no') }}", "{% if %}"])
def test_another_template_is_refused(template: str, tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text(template)
    with pytest.raises(UserError, match=r"does not write ChatML|cannot be rendered"):
        default_system(tmp_path / "chat_template.jinja")

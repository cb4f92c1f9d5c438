"""Every message that the grammar lets through is well formed and calls what was declared."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninefold.chat import json_bytes
from ninefold.chat.grammar import XtmlGrammar
from ninefold.chat.tools import JSON_TYPES, wire_type
from ninefold.chat.xtml import Xtml
from ninefold.core.errors import UserError
from ninefold.core.types import IntArray


def tool(name: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": "", "parameters": parameters}}


TOOLS = [
    tool("search", {"query": {"type": "string"}, "limit": {"type": "integer"}}, ["query"]),
    tool(
        'odd"&name',
        {"where": {"type": "string", "enum": ["here", "there", ""]}, "deep": {"type": ["object", "null"]}},
        ["where"],
    ),
    tool("all", {kind: {"type": kind} for kind in JSON_TYPES}, list(JSON_TYPES)),
    tool("any", {"x": {}}, []),
]


def walk(grammar: XtmlGrammar, random: np.random.Generator, stop: int, limit: int = 3000) -> IntArray:
    """A random message: control tokens are preferred, so that it ends."""
    ids: list[int] = []
    while len(ids) < limit:
        allowed = grammar.allowed(np.array(ids, np.int32))
        assert len(allowed), "a dead end"
        assert (np.diff(allowed) > 0).all()
        control = allowed[allowed < 12]
        options = control if len(control) and random.random() < 0.3 else allowed
        ids.append(int(random.choice(options)))
        if ids[-1] == stop:
            break
    return np.array(ids, np.int32)


@pytest.mark.parametrize("thinking", [True, False])
def test_random_messages_parse(xtml: Xtml, thinking: bool) -> None:
    form = Xtml(xtml.tokenizer, thinking=thinking)
    declared = {t["function"]["name"]: t["function"]["parameters"] for t in TOOLS}
    grammar = form.grammar(TOOLS)
    called: set[str] = set()
    ended = 0
    for seed in range(60):
        ids = walk(grammar, np.random.default_rng(seed), form.stop_ids[0])
        if ids[-1] != form.stop_ids[0]:
            continue
        ended += 1
        message = form.parse(ids)
        assert message.problems == ()
        for call in message.calls:
            assert call.error is None
            called.add(call.tool)
            properties = declared[call.tool]["properties"]
            assert set(declared[call.tool]["required"]) <= call.arguments.keys() <= properties.keys()
            for key, value in call.arguments.items():
                kinds = properties[key].get("type", list(JSON_TYPES))
                assert wire_type(value) in {JSON_TYPES[k] for k in ([kinds] if isinstance(kinds, str) else kinds)}
                assert value in properties[key].get("enum", [value])
                assert kinds != "integer" or isinstance(value, int)
        assert len(grammar.allowed(ids)) == 0
    assert ended > 30
    assert called == declared.keys()


def test_completions_are_allowed(xtml: Xtml) -> None:
    calls = [{"function": {"name": "search", "arguments": {"query": "the mail", "limit": 3}}}]
    ids = xtml.completion(
        {"role": "assistant", "reasoning_content": "let me see", "content": "one moment", "tool_calls": calls}
    )
    grammar = xtml.grammar(TOOLS)
    for n in range(len(ids)):
        assert ids[n] in grammar.allowed(ids[:n])
    cold = xtml.grammar(TOOLS)
    assert len(cold.allowed(ids[:-1])) == 1


def test_tool_choice(xtml: Xtml) -> None:
    answer = xtml.completion({"role": "assistant", "content": "no"})
    at = len(answer) - 4  # where the message would close
    assert answer[at] not in xtml.grammar(TOOLS, tool_choice="required").allowed(answer[:at])
    random = np.random.default_rng(1)
    for _ in range(20):
        assert not xtml.parse(walk(xtml.grammar(TOOLS, tool_choice="none"), random, xtml.stop_ids[0])).calls
        ids = walk(xtml.grammar(TOOLS[:1], tool_choice="required"), random, xtml.stop_ids[0])
        assert ids[-1] != xtml.stop_ids[0] or xtml.parse(ids).calls
    with pytest.raises(UserError, match="at least one"):
        xtml.grammar([], tool_choice="required")
    with pytest.raises(UserError, match="type 'float'"):
        xtml.grammar([tool("f", {"x": {"type": "float"}}, [])])


def test_not_allowed_is_a_dead_end(xtml: Xtml) -> None:
    grammar = xtml.grammar(TOOLS)
    assert len(grammar.allowed(np.array([xtml.stop_ids[0]], np.int32))) == 0


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**14), 10**14) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(plain)
def test_json_written_by_python_is_accepted(value: Any) -> None:
    for ascii_only in (True, False):
        text = json.dumps(value, ensure_ascii=ascii_only)
        if "\\ud" in text:
            continue
        for kind in ("value", {"number": "integer"}.get(wire_type(value), wire_type(value))):
            state = json_bytes.advance(json_bytes.start(kind), text.encode())
            assert state is not None
            assert json_bytes.complete(state)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["value", *JSON_TYPES]))
@settings(max_examples=200)
def test_json_walks_are_json(seed: int, kind: str) -> None:
    random = np.random.default_rng(seed)
    state, written = json_bytes.start(kind), bytearray()
    while not (json_bytes.complete(state) and (not state or random.random() < 0.3)) and len(written) < 400:
        following = {
            b: s for b in b'"\\{}[]:,. -+eE0123456789truefalsnudDbx\xc3' if (s := json_bytes.step(state, b)) is not None
        }
        if not following and json_bytes.complete(state):
            break
        assert following, "a dead end"
        byte = int(random.choice(sorted(following)))
        state = following[byte]
        written.append(byte)
    if json_bytes.complete(state):
        value = json.loads(written.decode("utf-8", "replace"))
        json.dumps(value, ensure_ascii=False).encode()
        assert kind == "value" or wire_type(value) == JSON_TYPES[kind]
        assert kind != "integer" or isinstance(value, int)

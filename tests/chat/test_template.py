"""The Jinja template renders what the renderer does, as transformers would run it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2.exceptions import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ninefold.chat.render import Options, render
from ninefold.chat.template import TEMPLATE, decoded
from tests.chat.test_render import STRICTER, cases

Render = Callable[..., str]


@pytest.fixture(scope="module")
def template() -> Render:
    """With the environment, filters and functions that transformers gives a template."""

    def refuse(message: str) -> None:
        raise TemplateError(message)

    def tojson(
        value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
    ) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = refuse
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render


def ours(kwargs: dict[str, Any]) -> str:
    given = dict(kwargs)
    messages = given.pop("messages")
    names = {"thinking_effort": "effort", "add_generation_prompt": "generation_prefix"}
    options = Options(**{names.get(k, k): v for k, v in given.items()})
    return "".join(piece.text for message in render(messages, options) for piece in message.pieces)


def test_every_golden_conversation(golden: Path, template: Render) -> None:
    """Those too whose arguments are no JSON; left out are the three in which the release is laxer than the specification."""
    covered = [case for case in cases(golden) if "error" not in case and case["name"] not in STRICTER]
    assert len(covered) >= 70
    for case in covered:
        kwargs = case["kwargs"] | {"messages": decoded(case["kwargs"]["messages"])}
        assert template(**kwargs) == case["text"], case["name"]


def test_what_the_renderer_refuses_is_refused(golden: Path, template: Render) -> None:
    for case in cases(golden):
        if "error" in case:
            with pytest.raises((TemplateError, TypeError)):
                template(**case["kwargs"])


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
CALL = st.builds(
    lambda n, name, arguments: {"id": f"c{n}", "function": {"name": name, "arguments": arguments}},
    st.integers(1, 3),
    TEXT,
    st.dictionaries(TEXT, VALUE, max_size=3) | st.just("not JSON {") | st.just(" "),
)
MESSAGE = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user"]), "content": st.none() | TEXT}, optional={"name": TEXT}),
    st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": st.none() | TEXT},
        optional={"reasoning_content": TEXT, "name": TEXT, "tool_calls": st.lists(CALL, max_size=3)},
    ),
    st.fixed_dictionaries(
        {"role": st.just("tool"), "content": TEXT, "name": TEXT.filter(bool)},
        optional={"tool_call_id": st.sampled_from(["c1", "c2", "c3"])},
    ),
)


@given(
    messages=st.lists(MESSAGE, max_size=6),
    effort=st.sampled_from([None, "low", "high", "max"]),
    thinking=st.booleans(),
    tools=st.lists(st.dictionaries(TEXT, VALUE, max_size=2), max_size=2),
)
def test_any_conversation(template: Render, messages: Any, effort: str | None, thinking: bool, tools: Any) -> None:
    kwargs = {"messages": messages, "thinking_effort": effort, "thinking": thinking, "tools": tools}
    assert template(**kwargs) == ours(kwargs)


def test_decoding_leaves_what_is_no_object() -> None:
    def message(arguments: Any) -> list[dict[str, Any]]:
        return [{"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": arguments}}]}]

    assert decoded(message('{"a": 1}')) == message({"a": 1})
    for kept in ("{", "", {"a": 1}, None):
        assert decoded(message(kept)) == message(kept)
    given = message('{"a": 1}')
    decoded(given)
    assert given == message('{"a": 1}'), "the caller's messages stay as they were"

"""Calls as OpenAI messages hold them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninefold.chat.messages import WireCall, call_id, read_messages, tool_call
from ninefold.core.errors import UserError
from ninefold.core.types import Call

JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x, max_size=3), max_leaves=4)


@given(calls=st.lists(st.tuples(st.text(min_size=1), st.dictionaries(st.text(), JSON, max_size=3)), max_size=3))
def test_a_written_call_is_read_back(calls: list[tuple[str, dict[str, Any]]]) -> None:
    written = [tool_call(Call(tool=tool, arguments=given), call_id(n)) for n, (tool, given) in enumerate(calls, 1)]
    (message,) = read_messages([{"role": "assistant", "content": None, "tool_calls": written}])
    assert message.calls == tuple(
        WireCall(tool=tool, arguments=arguments, id=call_id(n)) for n, (tool, arguments) in enumerate(calls, 1)
    )


@pytest.mark.parametrize(
    "message", [{"role": "assistant", "tool_calls": 5}, {"role": "system", "content": "x", "tools": {"a": 1}}]
)
def test_what_should_be_a_list_is_told(message: dict[str, object]) -> None:
    with pytest.raises(UserError, match="must be a list, got"):
        read_messages([message])

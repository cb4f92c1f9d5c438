"""Conversations spelled as lines: there and back, in whole ids."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ninefold.agent.harness.tools import written
from ninefold.chat.spelled import Spelled, spell, unspell
from ninefold.core.protocols import Move
from ninefold.core.types import Call

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@given(st.lists(st.dictionaries(st.text(), JSON, max_size=4), max_size=5))
def test_lines_come_back(records: list[dict[str, object]]) -> None:
    ids = np.concatenate([np.zeros(0, np.int32), *map(spell, records)])
    assert unspell(ids) == records


@given(st.text(), st.text(), st.lists(st.dictionaries(st.text(), JSON, max_size=3), max_size=3))
def test_a_written_message_is_read_as_it_was(think: str, response: str, arguments: list[dict[str, object]]) -> None:
    calls = tuple(Call(tool="look", arguments=given) for given in arguments)
    message = written(Move(think=think, response=response, calls=calls), calls)
    read = Spelled().parse(Spelled().completion(message))
    assert (read.think, read.response, read.problems) == (think if think.strip() else "", response or None, ())
    assert [(call.tool, call.arguments) for call in read.calls] == [("look", given) for given in arguments]


def test_what_was_cut_off_says_nothing() -> None:
    chat = Spelled()
    whole = chat.completion({"role": "assistant", "content": "a whole sentence"})
    for length in range(len(whole)):
        read = chat.parse(whole[:length])
        assert (read.response, read.calls, read.problems) == (None, (), ("truncated",))
    assert "whole sentence" in chat.decode(whole)


def test_arguments_that_are_no_json_are_shown() -> None:
    chat = Spelled()
    call = {"function": {"name": "look", "arguments": '{"at": '}}
    (read,) = chat.parse(chat.completion({"role": "assistant", "content": None, "tool_calls": [call]})).calls
    assert read.error == 'bad arguments: no JSON object: {"at": '

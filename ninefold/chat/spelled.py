"""A chat format that spells a conversation as JSON lines, for models that are spoken to in messages and not in tokens.

An id is four bytes of the text. That is about what a token is to other models, so limits that count ids mean about the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ninefold.chat.messages import read_messages
from ninefold.core.errors import UserError
from ninefold.core.protocols import Message, ParsedMessage
from ninefold.core.types import Call, Effort, IntArray, Segment

BYTES = 4
"""Of text to an id."""


def spell(record: Mapping[str, Any]) -> IntArray:
    """One line, filled up to whole ids."""
    text = json.dumps(record).encode()
    return np.frombuffer(text + b" " * (-len(text) - 1 & BYTES - 1) + b"\n", "<i4").astype(np.int32, copy=False)


def unspell(ids: IntArray) -> list[dict[str, Any]]:
    """The lines. Raises ValueError where they are none, as where the last one was cut off."""
    *lines, rest = np.asarray(ids, "<i4").tobytes().split(b"\n")
    if rest:
        raise ValueError("the last line is cut off")
    return [json.loads(line) for line in lines]


class Spelled:
    """`core.protocols.ChatFormat`: a line with tools and effort, then a line a message."""

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """None: a message ends with its line."""
        return ()

    def open(self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]], effort: Effort) -> list[Segment]:
        options = Segment(ids=spell({"tools": list(tools), "effort": effort}), source="rendered", message=0, role="system")
        return [options, *_rendered(messages, 0)]

    def extend(self, messages: Sequence[Message], *, message: int, calls: Sequence[Call] = ()) -> list[Segment]:
        return _rendered(messages, message)

    def completion(self, message: Message) -> IntArray:
        return spell(message)

    def conversation(
        self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] = (), effort: Effort = "max"
    ) -> list[Segment]:
        """A given conversation; its assistant messages are what a policy would have written."""
        options, *said = self.open(messages, tools=tools, effort=effort)
        masked = [
            Segment(
                ids=segment.ids,
                source="rendered",
                message=segment.message,
                role=segment.role,
                mask=np.full(len(segment.ids), segment.role == "assistant"),
            )
            for segment in said
        ]
        return [options, *masked]

    def parse(self, ids: IntArray) -> ParsedMessage:
        """A message that was cut off holds nothing; arguments that are no JSON object are an error of their call."""
        try:
            (record,) = unspell(ids)
            (message,) = read_messages([record])
        except (ValueError, UserError):
            return ParsedMessage(think="", response=None, calls=(), problems=("truncated",), think_tokens=len(ids))
        wrong = "bad arguments: no JSON object: "
        calls = tuple(
            Call(tool=call.tool, arguments=call.arguments, error=call.raw and f"{wrong}{call.raw[:200]}")
            for call in message.calls
        )
        response = "".join(part for part in message.content if isinstance(part, str)) or None
        think = message.reasoning
        return ParsedMessage(
            think=think, response=response, calls=calls, problems=(), think_tokens=-(-len(think.encode()) // BYTES)
        )

    def decode(self, ids: IntArray) -> str:
        return np.asarray(ids, "<i4").tobytes().decode(errors="replace")


def _rendered(messages: Sequence[Message], first: int) -> list[Segment]:
    return [
        Segment(ids=spell(message), source="rendered", message=index, role=message["role"])
        for index, message in enumerate(messages, first)
    ]

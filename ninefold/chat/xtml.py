"""`Xtml`: the chat format of K3, as the rooms that generate and learn use it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from typing import Any

import numpy as np

from ninefold.chat import tools as tool_wire
from ninefold.chat.grammar import ToolChoice, XtmlGrammar
from ninefold.chat.markers import CLOSE, CONTROL_TOKENS, END_OF_MSG, IMAGE_PLACEHOLDER, MEDIA_PAD, OPEN, image_prompt
from ninefold.chat.messages import WireCall, call_id, order_results, read_messages
from ninefold.chat.parse import Parser, parse
from ninefold.chat.render import (
    EFFORT_SENTENCE,
    OPTION,
    Options,
    Piece,
    RenderedMessage,
    assistant_body,
    generation_prefix,
    one_shot_options,
    render,
    render_messages,
)
from ninefold.chat.tokenizer import Tokenizer
from ninefold.core.errors import UserError
from ninefold.core.picture import Picture
from ninefold.core.protocols import Message, ParsedMessage
from ninefold.core.types import EFFORTS, Call, Effort, IntArray, Segment

CACHED = 4096
"""Encoded headers and declarations that an `Xtml` remembers."""

_CONTROL = re.compile(f"({'|'.join(map(re.escape, CONTROL_TOKENS))})")


class Xtml:
    """Implements `core.protocols.ChatFormat`. Thinking mode unless `thinking` is False; one per tokenizer and mode."""

    def __init__(self, tokenizer: Tokenizer, *, thinking: bool = True, joined: bool = True) -> None:
        """`joined` encodes the text between two control tokens as one, so that fixed phrases are single ids; False encodes
        piece by piece, as the released encoder does (for K3's own tokenizer)."""
        self.tokenizer = tokenizer
        self.thinking = thinking
        self._joined = joined
        self._remembered = lru_cache(CACHED)(self._text_ids)

    @property
    def stop_ids(self) -> tuple[int, ...]:
        return (self.tokenizer.control[END_OF_MSG],)

    def open(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]],
        effort: Effort,
        tool_choice: Any = None,
        response_format: Any = None,
    ) -> list[Segment]:
        """The prompt, one segment per message: global options, `messages`, one-shot options, generation prefix.

        Options have the message index −1. Raises UserError for what cannot be rendered.
        """
        options = self._options(tools, effort, tool_choice, response_format)
        return [self._segment(m) for m in render(messages, options)]

    def extend(
        self,
        messages: Sequence[Message],
        *,
        message: int,
        calls: Sequence[Call] = (),
        tool_choice: Any = None,
        response_format: Any = None,
    ) -> list[Segment]:
        """What follows a sampled assistant message: tool results or user messages, then the next generation prefix.

        `message` is the index of the first of them; `calls` those of the assistant message before, malformed ones included,
        which are known as `call_id(1)`, `call_id(2)`, … where results name the call they answer. Raises UserError.
        """
        before = [WireCall(tool=call.tool, arguments={}, id=call_id(n)) for n, call in enumerate(calls, 1)]
        read = order_results(read_messages(messages, first=message), before)
        assert all(m.role != "assistant" for m in read), "sampled messages are never rendered again"
        options = self._options((), None, tool_choice, response_format)
        rendered = render_messages(read, options, before) + one_shot_options(options)
        rendered.append(generation_prefix(message + len(messages), self.thinking))
        return [self._segment(m) for m in rendered]

    def completion(self, message: Message) -> IntArray:
        """The ids that a policy writing exactly `message` after the generation prefix would sample, stop id included.

        Raises UserError for a message that is no assistant's, or that has a name (the prefix cannot hold it).
        """
        (read,) = read_messages([message])
        if read.role != "assistant" or read.name:
            raise UserError(f"only an assistant message without a name can be a completion, got role {read.role!r}")
        return np.array(self._encode(assistant_body(read, self.thinking))[0], np.int32)

    def conversation(
        self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] = (), effort: Effort = "max"
    ) -> list[Segment]:
        """A given conversation for supervised learning, one segment per message and no generation prefix at the end.

        The mask is True on what a policy would have written: assistant messages after the generation prefix, their end token
        included, without blocks of malformed arguments. Raises UserError for what cannot be rendered.
        """
        options = replace(self._options(tools, effort), generation_prefix=False)
        return [self._segment(m, masked=True) for m in render(messages, options)]

    @property
    def placeholder(self) -> int:
        """The id that stands for a picture."""
        return self.tokenizer.control[MEDIA_PAD]

    def picture(self, picture: Picture) -> IntArray:
        """The ids that stand for a picture: its size, and one placeholder."""
        return np.array(self._control_ids(image_prompt(picture.width, picture.height)), np.int32)

    def parse(self, ids: IntArray) -> ParsedMessage:
        """The message that generated `ids` amount to; never raises."""
        return parse(self.tokenizer, ids.tolist(), thinking=self.thinking)

    def parser(self) -> Parser:
        """The same automaton, to be fed as tokens arrive."""
        return Parser(self.tokenizer, thinking=self.thinking)

    def grammar(self, tools: Sequence[Mapping[str, Any]] = (), *, tool_choice: ToolChoice = "auto") -> XtmlGrammar:
        """Constrains what follows the generation prefix to well-formed messages that call `tools`. Raises UserError."""
        return XtmlGrammar(self.tokenizer, tools, tool_choice=tool_choice, thinking=self.thinking)

    def decode(self, ids: IntArray) -> str:
        """Text for people; control tokens are spelled out."""
        return self.tokenizer.decode(ids)

    def _options(
        self, tools: Sequence[Mapping[str, Any]], effort: str | None, tool_choice: Any = None, response_format: Any = None
    ) -> Options:
        return Options(
            tools=tools, effort=effort, thinking=self.thinking, tool_choice=tool_choice, response_format=response_format
        )

    def _segment(self, rendered: RenderedMessage, *, masked: bool = False) -> Segment:
        is_option = rendered.index == OPTION
        given, _ = self._encode(rendered.pieces[: rendered.given], recurs=is_option)
        written, learned = self._encode(rendered.pieces[rendered.given :])
        mask = np.array([False] * len(given) + learned, np.bool_) if masked else None
        return Segment(
            ids=np.array(given + written, np.int32),
            source="rendered",
            message=rendered.index,
            role=rendered.role,
            mask=mask,
            images=rendered.images,
        )

    def _encode(self, pieces: Sequence[Piece], *, recurs: bool = False) -> tuple[list[int], list[bool]]:
        """Ids of the pieces and whether each is learned. Headers, and everything if it `recurs`, are encoded once."""
        ids: list[int] = []
        learned: list[bool] = []
        in_header = False
        for piece in _joined(pieces) if self._joined else pieces:
            if piece.control:
                new = self._control_ids(piece.text)
                in_header = piece.text in (OPEN, CLOSE)
            elif in_header or recurs:
                new = self._remembered(piece.text)
            else:
                new = self._text_ids(piece.text)
            ids += new
            learned += [piece.learned] * len(new)
        return ids, learned

    def _text_ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text).tolist()

    def _control_ids(self, text: str) -> list[int]:
        """Ids of a control piece: one token, or an image prompt."""
        control = self.tokenizer.control
        if text in control:
            return [control[text]]
        if text == IMAGE_PLACEHOLDER:
            raise UserError("a picture has no size on the wire; give its content part `width` and `height` in pixels")
        ids: list[int] = []
        for run in _CONTROL.split(text):
            ids += [control[run]] if run in control else self._text_ids(run)
        return ids


def wire_phrases() -> list[str]:
    """The renderer's fixed phrases, for a small tokenizer to hold as single ids.

    One-shot options and mid-conversation declarations are left out: they are rare, and long.
    """
    headers = ["system", "user", "assistant"]
    kinds = ["string", "number", "boolean", "null", "object", "array"]
    return [
        *(f'message role="{role}"' for role in headers),
        *(f'message role="system" type="{kind}"' for kind in ("tool-declare", "thinking-effort")),
        'message role="tool" tool="',
        *("message", "think", "response", "tools", "call", "argument", "json"),
        'call tool="',
        *(f'" index="{index}"' for index in (1, 2, 3)),
        'argument key="',
        *(f'" type="{kind}"' for kind in kinds),
        EFFORT_SENTENCE,
        *EFFORTS,
        "`.",
        tool_wire.DECLARE + "[",
        f'{tool_wire.DECLARE}[{{"function":{{"description":"',
        '},{"function":{"description":"',
        '","name":"',
        '","parameters":{"properties":{"',
        '":{"type":"string"}',
        '":{"type":"integer"}',
        '":{"type":"number"}',
        '},"required":["',
        '"],"type":"object"}},"type":"function"}',
        "]\n```",
    ]


def _joined(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Pieces with neighbouring texts made one."""
    for control, group in groupby(pieces, key=lambda piece: piece.control):
        if control:
            yield from group
        else:
            texts = list(group)
            yield texts[0]._replace(text="".join(piece.text for piece in texts))

"""Conversations of one's own for supervised learning, one JSON object a line: `messages`, and perhaps `tools` and `effort`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ninefold.chat.tokenizer import Tokenizer
from ninefold.chat.xtml import Xtml, wire_phrases
from ninefold.core.errors import UserError
from ninefold.core.picture import Picture
from ninefold.core.protocols import ChatFormat
from ninefold.core.types import EFFORTS, Segment
from ninefold.data.lines import numbered_lines
from ninefold.media.parts import take_pictures

FIELDS = ("messages", "tools", "effort")
SHOWN = 20
"""Faults that one error lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One line of the file, rendered."""

    line: int
    """From 1."""
    segments: tuple[Segment, ...]
    """With masks: True on what a policy would have written."""
    pictures: tuple[Picture, ...] = ()
    """What its messages show, each once."""


def bytewise() -> Xtml:
    """The chat format before any tokenizer is trained: text is split by bytes."""
    return Xtml(Tokenizer.train([], wire_phrases(), 512))


def read_conversations(path: Path, chat: ChatFormat) -> list[Conversation]:
    """Every conversation of a JSONL file. Raises UserError that lists the lines at fault; empty lines are passed over."""
    lines = numbered_lines(path)
    conversations: list[Conversation] = []
    faults: list[str] = []
    for number, text in lines:
        try:
            segments, pictures = render_conversation(text, chat)
            conversations.append(Conversation(line=number, segments=segments, pictures=pictures))
        except UserError as error:
            faults.append(f"line {number}: {error}")
    if faults:
        more = f"\n… and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        raise UserError(f"{path}: {len(faults)} of {len(lines)} lines cannot be used\n" + "\n".join(faults[:SHOWN]) + more)
    if not conversations:
        raise UserError(f"{path} holds no conversation; write one JSON object a line, e.g. {EXAMPLE}")
    return conversations


EXAMPLE = '{"messages": [{"role": "user", "content": "1+2?"}, {"role": "assistant", "content": "3"}], "effort": "low"}'


def render_conversation(text: str, chat: ChatFormat) -> tuple[tuple[Segment, ...], tuple[Picture, ...]]:
    """One line as segments with masks, and its pictures, which stand in data URIs. Raises UserError."""
    record = _record(text)
    messages = record.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise UserError("`messages` must be a list of objects with role and content")
    effort = record.get("effort", "max")
    if effort not in EFFORTS:
        raise UserError(f"`effort` must be one of {', '.join(EFFORTS)}, got {effort!r}")
    tools = record.get("tools") or []
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise UserError("`tools` must be a list of function declarations")
    messages, pictures = take_pictures(messages)
    segments = tuple(chat.conversation(messages, tools=tools, effort=effort))
    if not any(segment.loss_mask.any() for segment in segments):
        raise UserError("there is nothing to learn: no assistant message")
    return segments, tuple(pictures.values())


def _record(text: str) -> Mapping[str, Any]:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"not JSON: {error}") from None
    if not isinstance(record, dict):
        raise UserError(f"must be an object, got {type(record).__name__}")
    if unknown := record.keys() - set(FIELDS):
        raise UserError(f"unknown field {sorted(unknown)[0]!r}; a line may have {', '.join(FIELDS)}")
    return record

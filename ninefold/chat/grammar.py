"""Constrained decoding: only well-formed XTML that calls declared tools with arguments of the declared types.

The language is a graph of goals. Between bodies every token is forced or one of a few tag sequences; within a body any text, or
any JSON of the argument's type, may stand. Tag sequences start with a control token and text never does, so one token suffices
to tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from ninefold.chat import json_bytes
from ninefold.chat.markers import CLOSE, END_OF_MSG, OPEN, SEP
from ninefold.chat.render import escape
from ninefold.chat.tokenizer import Tokenizer
from ninefold.chat.tools import JSON_TYPES, Argument, Declared, read_declaration
from ninefold.core.errors import UserError
from ninefold.core.types import IntArray

ToolChoice = Literal["auto", "none", "required"]
MAX_CALLS = 8
"""Calls in one message."""
REMEMBERED = 4096
"""Positions and prefixes that a grammar remembers."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Between calls."""

    made: int


@dataclass(frozen=True, slots=True)
class InCall:
    """Between the arguments of a call."""

    number: int
    tool: Declared
    written: frozenset[str]


@dataclass(frozen=True, slots=True)
class InArgument:
    """Before an argument's value."""

    call: InCall
    argument: Argument
    kind: str


Goal = Literal["think", "response", "end"] | Calls | InCall | InArgument


@dataclass(frozen=True, slots=True)
class Path:
    """A way on: forced tokens, then a goal."""

    tokens: tuple[int, ...]
    goal: Goal


@dataclass(frozen=True, slots=True)
class Place:
    """Where the message stands."""

    paths: tuple[Path, ...]
    body: Literal["none", "text", "json"] = "none"
    json: json_bytes.State = ()
    """What the JSON body still needs."""


DEAD = Place(())
"""After the end, and after a token that was not allowed."""


class XtmlGrammar:
    """Implements `core.protocols.Grammar` for the ids after a generation prefix."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        tool_choice: ToolChoice = "auto",
        thinking: bool = True,
    ) -> None:
        """Raises UserError where calls are required and no tool is declared, or a declaration cannot be read."""
        declared = [read_declaration(tool) for tool in tools] if tool_choice != "none" else []
        self._tools = tuple({tool.tool: tool for tool in declared}.values())
        if tool_choice == "required" and not self._tools:
            raise UserError("tool_choice=required needs at least one declared tool")
        self._required = tool_choice == "required"
        self._tokenizer = tokenizer
        control = set(tokenizer.control.values())
        self._ordinary = tuple(i for i in range(tokenizer.vocab_size) if i not in control and tokenizer.token_bytes(i))
        self._ordinary_set = frozenset(self._ordinary)
        self._start = self._enter("think" if thinking else "response")
        self._at = lru_cache(REMEMBERED)(self._allowed_at)
        self._json_tokens = lru_cache(REMEMBERED)(self._fitting)
        self._places: dict[bytes, Place] = {}

    def allowed(self, ids: IntArray) -> IntArray:
        """[n] sorted ids that may follow the generated `ids`; none after the end and after anything not allowed."""
        return self._at(self._place(np.ascontiguousarray(ids, np.int32)))

    def _place(self, ids: IntArray) -> Place:
        key = ids.tobytes()
        place = self._places.get(key)
        if place is None:
            before = self._places.get(key[:-4]) if len(ids) else self._start
            if before is not None and len(ids):
                place = self._advance(before, int(ids[-1]))
            else:
                place = self._start
                for i in ids.tolist():
                    place = self._advance(place, i)
            if len(self._places) >= REMEMBERED:
                self._places.clear()
            self._places[key] = place
        return place

    def _allowed_at(self, place: Place) -> IntArray:
        ids: set[int] = set()
        if place.body != "json" or json_bytes.complete(place.json):
            ids.update(path.tokens[0] for path in place.paths)
        if place.body == "text":
            ids.update(self._ordinary)
        elif place.body == "json":
            ids.update(self._json_tokens(place.json))
        return np.array(sorted(ids), np.int32)

    def _advance(self, place: Place, i: int) -> Place:
        if place.body == "text" and i in self._ordinary_set:
            return place
        if place.body == "json" and i in self._ordinary_set:
            state = json_bytes.advance(place.json, self._tokenizer.token_bytes(i))
            return DEAD if state is None else replace(place, json=state)
        if place.body == "json" and not json_bytes.complete(place.json):
            return DEAD
        paths = tuple(Path(path.tokens[1:], path.goal) for path in place.paths if path.tokens[0] == i)
        if len(paths) == 1 and not paths[0].tokens:
            return self._enter(paths[0].goal)
        return Place(paths)

    def _fitting(self, state: json_bytes.State) -> tuple[int, ...]:
        bytes_of = self._tokenizer.token_bytes
        return tuple(i for i in self._ordinary if json_bytes.advance(state, bytes_of(i)) is not None)

    def _enter(self, goal: Goal) -> Place:
        if goal == "end":
            return DEAD
        if goal == "think":
            return Place((Path(self._close("think") + self._open("response"), "response"),), body="text")
        if goal == "response":
            return Place(tuple(self._after_response()), body="text")
        if isinstance(goal, Calls):
            return Place(tuple(self._after_calls(goal)))
        if isinstance(goal, InCall):
            return Place(tuple(self._after_argument(goal)))
        return self._value(goal)

    def _after_response(self) -> Iterator[Path]:
        close = self._close("response")
        if self._tools:
            yield Path(close + self._open("tools"), Calls(0))
        if not self._required:
            yield Path(close + self._end(), "end")

    def _after_calls(self, goal: Calls) -> Iterator[Path]:
        if goal.made < MAX_CALLS:
            number = goal.made + 1
            for tool in self._tools:
                header = self._open(f'call tool="{escape(tool.tool)}" index="{number}"')
                yield Path(header, InCall(number, tool, frozenset()))
        if goal.made:
            yield Path(self._close("tools") + self._end(), "end")

    def _after_argument(self, goal: InCall) -> Iterator[Path]:
        for argument in goal.tool.arguments:
            if argument.key not in goal.written:
                for kind in argument.kinds:
                    header = self._open(f'argument key="{escape(argument.key)}" type="{JSON_TYPES[kind]}"')
                    yield Path(header, InArgument(goal, argument, kind))
        if all(argument.key in goal.written or not argument.required for argument in goal.tool.arguments):
            yield Path(self._close("call"), Calls(goal.number))

    def _value(self, goal: InArgument) -> Place:
        after = replace(goal.call, written=goal.call.written | {goal.argument.key})
        close = self._close("argument")
        if goal.argument.choices:
            return Place(tuple(Path((*self._text(choice), *close), after) for choice in goal.argument.choices))
        paths = (Path(close, after),)
        if goal.kind == "string":
            return Place(paths, body="text")
        return Place(paths, body="json", json=json_bytes.start(goal.kind))

    def _open(self, header: str) -> tuple[int, ...]:
        control = self._tokenizer.control
        return (control[OPEN], *self._text(header), control[SEP])

    def _close(self, tag: str) -> tuple[int, ...]:
        control = self._tokenizer.control
        return (control[CLOSE], *self._text(tag), control[SEP])

    def _end(self) -> tuple[int, ...]:
        return (*self._close("message"), self._tokenizer.control[END_OF_MSG])

    def _text(self, text: str) -> list[int]:
        return self._tokenizer.encode(text).tolist()

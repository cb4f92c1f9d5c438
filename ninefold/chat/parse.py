"""From generated ids to an assistant message: one automaton for streams and whole outputs (spec: XTML, rules R1–R7).

It works on ids, because bodies are not escaped: only an id can tell a marker from text that spells one. It never raises.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from ninefold.chat.markers import CLOSE, END_OF_MSG, OPEN, SEP
from ninefold.chat.render import unescape
from ninefold.chat.tokenizer import Tokenizer
from ninefold.chat.tools import read_value
from ninefold.core.protocols import ParsedMessage
from ninefold.core.types import Call

Channel = Literal["think", "response"]
RAW_LIMIT = 200
"""Characters of a malformed call's raw text that its error repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """More text of a channel."""

    channel: Channel
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallClosed:
    """A call is complete, well formed or not."""

    index: int
    """From 1, in order of appearance."""
    call: Call


Event = TextDelta | CallClosed


@dataclass(slots=True)
class _OpenCall:
    """A call whose end is not seen yet."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    error: str | None = None

    def fail(self, kind: str, detail: str) -> None:
        """The first fault is the one reported."""
        if self.error is None:
            self.error = f"{kind}: {detail[:RAW_LIMIT]}"


@dataclass(slots=True)
class _Argument:
    """The argument or json block that is being read."""

    key: str | None
    """None for a json block."""
    kind: str | None
    body: list[bytes] = field(default_factory=list[bytes])

    @property
    def text(self) -> str:
        return b"".join(self.body).decode("utf-8", "replace")


class Parser:
    """Reads one assistant message from where the generation prefix ends. Feed ids in any portions, then `finish`."""

    def __init__(self, tokenizer: Tokenizer, *, thinking: bool = True) -> None:
        control = tokenizer.control
        self._tokenizer = tokenizer
        self._control = frozenset(control.values())
        self._open_id, self._close_id, self._sep_id = control[OPEN], control[CLOSE], control[SEP]
        self._end_id = control[END_OF_MSG]
        self._path: list[str] = ["message", "think" if thinking else "response"]
        self._marker: list[bytes] | None = None
        self._closing = False
        self._ended = False
        self._fresh = True
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._texts: dict[str, list[str]] = {"think": [], "response": []}
        self._think_tokens = 0
        self._calls: list[Call] = []
        self._call: _OpenCall | None = None
        self._argument: _Argument | None = None
        self._problems: dict[str, None] = {}
        self._events: list[Event] = []

    def feed(self, ids: Iterable[int]) -> list[Event]:
        """What `ids` add to the message."""
        self._events = []
        if self._ended:
            return self._events
        run: list[int] = []
        for i in ids:
            if i not in self._control:
                run.append(i)
                continue
            if run:
                self._text(run)
                run = []
            self._marker_id(i)
            if self._ended:
                return self._events
        if run:
            self._text(run)
        return self._events

    def finish(self) -> ParsedMessage:
        """The message, as far as it came; nothing can be fed afterwards."""
        if not self._ended:
            if self._path or self._marker is not None:
                self._problem("truncated")
            self._end()
        return ParsedMessage(
            think="".join(self._texts["think"]),
            response="".join(self._texts["response"]) or None,
            calls=tuple(self._calls),
            problems=tuple(self._problems),
            think_tokens=self._think_tokens,
        )

    def _text(self, run: list[int]) -> None:
        data = self._tokenizer.bytes_of(run)
        place = self._path[-1] if self._path else ""
        if self._marker is not None:
            self._marker.append(data)
        elif place == "think" or place == "response":
            self._fresh = False
            if place == "think":
                self._think_tokens += len(run)
            self._delta(place, self._decoder.decode(data))
        elif self._argument is not None:
            self._argument.body.append(data)
        elif not data.isspace():
            self._stray(data.decode("utf-8", "replace"))

    def _marker_id(self, i: int) -> None:
        if i == self._sep_id and self._marker is not None:
            header = b"".join(self._marker).decode("utf-8", "replace")
            self._marker = None
            if self._closing:
                self._close_tag(header.strip())
            else:
                self._open_tag(header)
            self._fresh = False
        elif i == self._open_id or i == self._close_id:
            if self._marker is not None:
                self._stray("unfinished marker")
            self._marker = []
            self._closing = i == self._close_id
        elif i == self._end_id:
            if self._path:
                self._problem("unclosed")
            self._ended = True
            self._end()
        else:
            self._stray(self._tokenizer.decode([i]))

    def _open_tag(self, header: str) -> None:
        tag, attributes = _read_header(header)
        if tag == "think" and self._fresh and self._path[-1:] == ["think"]:
            return
        if tag in ("think", "response", "tools") and self._path:
            if len(self._path) > 1:
                self._problem("unclosed")
                self._pop_to(1)
            self._path.append(tag)
            if attributes is None:
                self._problem("stray_text")
        elif tag == "call" and "tools" in self._path:
            self._open_call(header, attributes)
        elif tag in ("argument", "json") and self._call is not None:
            self._open_argument(tag, header, attributes)
        else:
            self._stray(f"<{header.strip()}>")

    def _open_call(self, header: str, attributes: dict[str, str] | None) -> None:
        if self._path[-1] != "tools":
            self._problem("unclosed")
            self._pop_to(self._path.index("tools") + 1)
        self._path.append("call")
        self._call = _OpenCall(tool=(attributes or {}).get("tool", ""))
        if attributes is None:
            self._call.fail("malformed_attributes", header.strip())
        elif not self._call.tool:
            self._call.fail("missing_tool", header.strip())

    def _open_argument(self, tag: str, header: str, attributes: dict[str, str] | None) -> None:
        assert self._call is not None
        if self._path[-1] != "call":
            self._problem("unclosed")
            self._call.fail("unclosed", self._path[-1])
            self._pop_to(self._path.index("call") + 1)
        self._path.append(tag)
        key = (attributes or {}).get("key")
        self._argument = _Argument(key=key, kind=(attributes or {}).get("type"))
        if tag == "argument" and key is None:
            self._call.fail("malformed_attributes", header.strip())

    def _close_tag(self, tag: str) -> None:
        if tag not in self._path:
            self._problem("mismatched_close")
            if self._call is not None:
                self._call.fail("mismatched_close", tag)
            return
        depth = self._path.index(tag)
        if depth < len(self._path) - 1:
            self._problem("unclosed")
            if tag == "call" and self._call is not None:
                self._call.fail("unclosed", self._path[-1])
        self._pop_to(depth + 1)
        if tag == "call":
            self._finish_call()
        self._pop_to(depth)

    def _pop_to(self, depth: int) -> None:
        """Leave elements until `depth` of them are open; a call left this way does not exist."""
        while len(self._path) > depth:
            tag = self._path.pop()
            if tag == "think" or tag == "response":
                self._delta(tag, self._decoder.decode(b"", final=True))
                self._decoder.reset()
            elif tag == "argument" or tag == "json":
                self._finish_argument()
            elif tag == "call":
                self._call = None

    def _finish_argument(self) -> None:
        call, argument = self._call, self._argument
        self._argument = None
        assert call is not None
        assert argument is not None
        text = argument.text
        if argument.key is None:
            call.fail("json_block", text)
            return
        try:
            call.arguments[argument.key] = read_value(text, argument.kind)
        except ValueError:
            call.arguments[argument.key] = text
            call.fail("bad_json", f"argument {argument.key!r} is not valid JSON of type {argument.kind}: {text}")

    def _finish_call(self) -> None:
        assert self._call is not None
        call = Call(tool=self._call.tool, arguments=self._call.arguments, error=self._call.error)
        self._call = None
        self._calls.append(call)
        self._events.append(CallClosed(index=len(self._calls), call=call))

    def _end(self) -> None:
        self._marker = None
        self._ended = True
        self._pop_to(0)

    def _delta(self, channel: Channel, text: str) -> None:
        if text:
            self._texts[channel].append(text)
            self._events.append(TextDelta(channel=channel, text=text))

    def _stray(self, text: str) -> None:
        self._problem("stray_text")
        if self._call is not None:
            self._call.fail("stray_text", text)

    def _problem(self, name: str) -> None:
        self._problems[name] = None


def parse(tokenizer: Tokenizer, ids: Sequence[int], *, thinking: bool = True) -> ParsedMessage:
    """The assistant message that `ids`, generated after the prefix of this mode, amount to."""
    parser = Parser(tokenizer, thinking=thinking)
    parser.feed(ids)
    return parser.finish()


_ATTRIBUTE = re.compile(r'\s*([^\s="]+)\s*=\s*"([^"]*)"\s*')


@lru_cache(maxsize=4096)
def _read_header(header: str) -> tuple[str, dict[str, str] | None]:
    """Tag and attributes of a marker; None for attributes that are malformed or repeated."""
    tag, rest = (*header.split(None, 1), "", "")[:2]
    attributes: dict[str, str] = {}
    at = 0
    while at < len(rest):
        match = _ATTRIBUTE.match(rest, at)
        if match is None or match[1] in attributes:
            return tag, None
        attributes[match[1]] = unescape(match[2])
        at = match.end()
    return tag, attributes

"""ChatML, the format of many public chat models, as a model's own template writes it; calls are `<tool_call>` blocks of JSON.

    <|im_start|>system            what the system message says, then the effort, then the tools
    Reasoning effort: low
    # Tools …<|im_end|>
    <|im_start|>user
    1+2?<|im_end|>
    <|im_start|>assistant
    <think>…</think>3<tool_call>{"name": "f", "arguments": {}}</tool_call><|im_end|>

Only `<|im_start|>` and `<|im_end|>` are control ids, which no text can become. What an assistant writes has no escapes but
JSON's: text that would be read as another part is refused where it is to be learned.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ninefold.chat.messages import ChatMessage, ImagePart, WireCall, call_id, order_results, read_messages
from ninefold.chat.parse import RAW_LIMIT
from ninefold.chat.tokenizer import Tokenizer
from ninefold.chat.tools import compact_json, read_value
from ninefold.core.errors import UserError
from ninefold.core.protocols import Message, ParsedMessage
from ninefold.core.store import read_json
from ninefold.core.types import EFFORTS, Call, Effort, IntArray, Segment

START, END = "<|im_start|>", "<|im_end|>"
THINK, THINK_END = "<think>", "</think>"
CALL, CALL_END = "<tool_call>", "</tool_call>"
EFFORT = "Reasoning effort: "
TOOLS = '# Tools\nTo call one, write <tool_call>{"name": …, "arguments": {…}}</tool_call>.\n'
OPTION = -1
"""Index of a system message that the conversation does not hold."""


class ChatML:
    """Implements `core.protocols.ChatFormat` with a model's own tokenizer and default system message."""

    def __init__(self, tokenizer: Tokenizer, *, system: str = "") -> None:
        """`system` stands where a conversation has no system message of its own."""
        self.tokenizer = tokenizer
        self._system = system

    @staticmethod
    def of(folder: Path) -> ChatML:
        """From the `tokenizer.json` and the `chat_template.jinja` of a Hugging Face folder.

        Raises UserError where they are not byte-level BPE with ChatML's control tokens, or the template writes another format.
        """
        return ChatML(chatml_tokenizer(folder), system=default_system(folder / "chat_template.jinja"))

    @property
    def stop_ids(self) -> tuple[int, ...]:
        return (self.tokenizer.control[END],)

    def open(self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]], effort: Effort) -> list[Segment]:
        """The prompt, one segment per message; effort and tools stand in the system message. Raises UserError."""
        return [*self._render(messages, tools, effort, masked=False), self._prefix(len(messages))]

    def extend(self, messages: Sequence[Message], *, message: int, calls: Sequence[Call] = ()) -> list[Segment]:
        """What follows a sampled assistant message: tool results or user messages, then the next generation prefix."""
        before = [WireCall(tool=call.tool, arguments={}, id=call_id(n)) for n, call in enumerate(calls, 1)]
        read = order_results(read_messages(messages, first=message), before)
        assert all(m.role != "assistant" for m in read), "sampled messages are never rendered again"
        return [*(self._given(m) for m in read), self._prefix(message + len(messages))]

    def completion(self, message: Message) -> IntArray:
        """The ids that a policy writing exactly `message` after the generation prefix would sample, stop id included.

        Raises UserError for a message that is no assistant's, and for text that would be read as another part.
        """
        (read,) = read_messages([message])
        if read.role != "assistant":
            raise UserError(f"only an assistant message can be a completion, got role {read.role!r}")
        return np.array([*self._encode(_body(read)), self.tokenizer.control[END]], np.int32)

    def conversation(
        self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] = (), effort: Effort = "max"
    ) -> list[Segment]:
        """A given conversation for supervised learning, one segment per message; the mask is True on what a policy would have
        written. Raises UserError."""
        return self._render(messages, tools, effort, masked=True)

    def parse(self, ids: IntArray) -> ParsedMessage:
        """The message that generated `ids` amount to; never raises."""
        stops = np.flatnonzero(ids == self.tokenizer.control[END])
        written = ids[: stops[0]] if len(stops) else ids
        return _Reader(self.tokenizer, written, ended=bool(len(stops))).message()

    def decode(self, ids: IntArray) -> str:
        """Text for people; control tokens are spelled out."""
        return self.tokenizer.decode(ids)

    def _render(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], effort: str, *, masked: bool
    ) -> list[Segment]:
        if effort not in EFFORTS:
            raise UserError(f"thinking effort {effort!r} is not supported; use one of {', '.join(EFFORTS)}")
        read = order_results(read_messages(messages))
        own = read[0] if read and read[0].role == "system" else None
        stated = _text_of(own) if own else self._system
        index = own.index if own else OPTION
        lines = [*([stated] if stated else []), *_options(tools, effort)]
        segments = [self._segment(index, "system", "\n".join(lines), first=True)]
        for message in read[1:] if own else read:
            if message.role == "assistant":
                segments.append(self._written(message, masked=masked))
            else:
                segments.append(self._given(message))
        return segments

    def _given(self, message: ChatMessage) -> Segment:
        return self._segment(message.index, message.role, _text_of(message))

    def _segment(self, index: int, role: str, text: str, *, first: bool = False) -> Segment:
        ids = [*self._head(role, text, first=first), self.tokenizer.control[END]]
        return Segment(ids=np.array(ids, np.int32), source="rendered", message=index, role=role)

    def _written(self, message: ChatMessage, *, masked: bool) -> Segment:
        """An assistant message of the history; the policy did not write its head."""
        head = self._head("assistant")
        body = [*self._encode(_body(message)), self.tokenizer.control[END]]
        mask = np.array([False] * len(head) + [True] * len(body)) if masked else None
        return Segment(ids=np.array(head + body, np.int32), source="rendered", message=message.index, mask=mask)

    def _prefix(self, index: int) -> Segment:
        ids = self._head("assistant")
        return Segment(ids=np.array(ids, np.int32), source="rendered", message=index)

    def _head(self, role: str, text: str = "", *, first: bool = False) -> list[int]:
        """A message but its end; the line break that ends the one before belongs to it, since the policy does not write it."""
        return [*([] if first else self._encode("\n")), self.tokenizer.control[START], *self._encode(f"{role}\n{text}")]

    def _encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text).tolist()


def chatml_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a Hugging Face folder, with ChatML's two control tokens. Raises UserError where it has none."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise UserError(f"{folder} holds no tokenizer.json")
    added = {token["content"]: token["id"] for token in read_json(path).get("added_tokens", ())}
    if lacking := [name for name in (START, END) if name not in added]:
        raise UserError(f"{path} has no token {', '.join(lacking)}: only models that speak ChatML can be used")
    return Tokenizer.from_hf(path, {name: added[name] for name in (START, END)})


def default_system(template: Path) -> str:
    """What the template states where a conversation has no system message; "" where it states nothing.

    Raises UserError where it cannot be rendered or does not write ChatML.
    """
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = _refuse
    if not template.is_file():
        raise UserError(f"{template} is missing: without a template nobody knows how the model wants to be spoken to")

    def rendered(*turns: tuple[str, str]) -> str:
        messages = [{"role": role, "content": content} for role, content in turns]
        return environment.from_string(template.read_text(encoding="utf-8")).render(
            messages=messages, add_generation_prompt=True
        )

    def wire(*turns: tuple[str, str]) -> str:
        return "".join(f"{START}{role}\n{content}{END}\n" for role, content in turns) + f"{START}assistant\n"

    stated: list[tuple[str, str]] = [("system", "S"), ("user", "U"), ("assistant", "A"), ("user", "V")]
    try:
        if rendered(*stated) != wire(*stated):
            raise UserError(f"{template} does not write ChatML")
        before, found, _ = rendered(("user", "U")).partition(wire(("user", "U")))
    except TemplateError as error:
        raise UserError(f"{template} cannot be rendered: {error}") from None
    head, tail = f"{START}system\n", f"{END}\n"
    if not found or (before and not (before.startswith(head) and before.endswith(tail))):
        raise UserError(f"{template} does not write ChatML where there is no system message")
    return before.removeprefix(head).removesuffix(tail)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def _options(tools: Sequence[Mapping[str, Any]], effort: str) -> list[str]:
    """Lines of the system message: the effort, then the tools, one declaration a line."""
    declared = [compact_json(tool.get("function", tool)) for tool in tools]
    return [EFFORT + effort, *([TOOLS + "\n".join(declared)] if declared else [])]


def _text_of(message: ChatMessage) -> str:
    if any(isinstance(part, ImagePart) for part in message.content):
        raise UserError(f"message {message.index} ({message.role}): ChatML of a text model holds no picture")
    return "".join(part for part in message.content if isinstance(part, str))


def _body(message: ChatMessage) -> str:
    """What an assistant writes. Raises UserError for text that would be read as another part."""
    think, response, where = message.reasoning, _text_of(message), f"message {message.index} (assistant)"
    if THINK_END in think:
        raise UserError(f"{where}: the reasoning holds {THINK_END}, which would end it")
    if CALL in response or (not think and response.startswith(THINK)):
        raise UserError(f"{where}: the response would be read as reasoning or a call: it holds {CALL} or begins with {THINK}")
    thought = f"{THINK}{think}{THINK_END}" if think else ""
    return thought + response + "".join(_call(call, where) for call in message.calls)


def _call(call: WireCall, where: str) -> str:
    if call.raw is not None:
        raise UserError(f"{where}: the arguments of {call.tool} are no JSON object and cannot be written")
    text = json.dumps({"name": call.tool, "arguments": dict(call.arguments)}, ensure_ascii=False)
    # A slash may be escaped in JSON, so that no argument can end the block.
    return CALL + text.replace("</", "<\\/") + CALL_END


class _Reader:
    """Reads one message off its text; ids matter only for how many of them are thinking."""

    def __init__(self, tokenizer: Tokenizer, ids: IntArray, *, ended: bool) -> None:
        control = set(tokenizer.control.values())
        self._kept = [i for i in ids.tolist() if i not in control]
        self._pieces = [tokenizer.token_bytes(i) for i in self._kept]
        self._text = b"".join(self._pieces).decode("utf-8", "replace")
        self._problems: list[str] = [] if len(self._kept) == len(ids) else ["stray_text"]
        self._ended = ended

    def message(self) -> ParsedMessage:
        think, tokens, rest = self._think()
        response, found, blocks = rest.partition(CALL)
        calls = self._calls(found + blocks) if found else ()
        problems = tuple(dict.fromkeys(self._problems + ([] if self._ended else ["truncated"])))
        return ParsedMessage(think=think, response=response or None, calls=calls, problems=problems, think_tokens=tokens)

    def _think(self) -> tuple[str, int, str]:
        """(thinking, its tokens, the text behind it)."""
        if not self._text.startswith(THINK):
            return "", 0, self._text
        think, closed, rest = self._text[len(THINK) :].partition(THINK_END)
        if not closed:
            self._problems.append("unclosed")
        return think, self._tokens_between(len(THINK), think), rest

    def _tokens_between(self, first: int, text: str) -> int:
        """Tokens that hold a byte of `text`, which begins at byte `first`."""
        last = first + len(text.encode())
        ends = np.cumsum([len(piece) for piece in self._pieces])
        starts = ends - [len(piece) for piece in self._pieces]
        return int(((starts < last) & (ends > first)).sum())

    def _calls(self, text: str) -> tuple[Call, ...]:
        calls: list[Call] = []
        while text.strip():
            before, found, rest = text.partition(CALL)
            if before.strip():
                self._problems.append("stray_text")
            if not found:
                break
            block, closed, text = rest.partition(CALL_END)
            if not closed:
                # A call that is not closed does not exist.
                self._problems.append("unclosed")
                break
            calls.append(_read_call(block))
        return tuple(calls)


def _read_call(block: str) -> Call:
    """The call in a closed block; with `error` where it cannot be dispatched."""
    try:
        value = read_value(block, "object")
    except ValueError as error:
        return Call(tool="", arguments={}, error=f"bad_json: {error}: {block.strip()[:RAW_LIMIT]}")
    named = isinstance(value, dict) and isinstance(value.get("name"), str)
    tool = value["name"] if named else ""
    if not named or not isinstance(arguments := value.get("arguments", {}), dict):
        return Call(tool=tool, arguments={}, error=f"bad_call: name and arguments are needed: {block.strip()[:RAW_LIMIT]}")
    return Call(tool=tool, arguments=arguments)

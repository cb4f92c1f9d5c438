"""XTML by pieces: what is text and what is a control token, before any tokenizer (spec: XTML; report, chat format)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from ninefold.chat import tools as tool_wire
from ninefold.chat.markers import CLOSE, END_OF_MSG, IMAGE_PLACEHOLDER, OPEN, SEP
from ninefold.chat.messages import ChatMessage, ImagePart, Part, WireCall, order_results, read_messages
from ninefold.core.errors import UserError
from ninefold.core.types import EFFORTS

EFFORT_SENTENCE = (
    "`thinking_effort` guides on how much to think in your thinking channel (not including the response channel), "
    "supported values include `low`, `medium`, `high`, and `max`.\nNow the system is invoked with `thinking_effort="
)
TOOL_CHOICES: Mapping[str, str] = {
    "required": "The system is invoked with `tool_choice=required`.\nYou MUST call tools in the next message.",
    "none": "The system is invoked with `tool_choice=none`.\nYou MUST NOT call any tools in the next message.",
}
JSON_ONLY = "Your response must be raw JSON data without markdown code blocks (```json) or any additional formatting."
OPTION = -1
"""Index of messages that state options and belong to no message of the conversation."""


class Piece(NamedTuple):
    """A run of text, or of control tokens."""

    text: str
    control: bool
    learned: bool = True
    """False where even an assistant's own words are not learned from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedMessage:
    """The pieces of one message."""

    index: int
    """Its place in the conversation; OPTION for options."""
    role: str
    pieces: tuple[Piece, ...]
    given: int
    """How many leading pieces the policy does not write: all, but for assistants only the generation prefix."""
    images: tuple[str, ...] = ()
    """Hashes of its pictures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is rendered around the messages."""

    tools: Sequence[Mapping[str, Any]] = ()
    effort: str | None = None
    """low, high or max; None states none. Instruct mode states none whatever stands here."""
    thinking: bool = True
    """False is instruct mode: no think channel anywhere."""
    tool_choice: Any = None
    """Only `required` and `none` are stated."""
    response_format: Any = None
    """`json_object` or `json_schema`, bare or as OpenAI's object; others are not stated."""
    response_schema: Any = None
    """Stands above the schema in `response_format`."""
    generation_prefix: bool = True
    image_prompts: Sequence[str] | None = None
    """What stands for each picture, in order; None takes it from the parts."""
    lenient: bool = False
    """Do as the released encoder where the specification is stricter: pass over unknown roles and things that are no messages,
    and let a placeholder typed in text take a picture."""


@dataclass(slots=True)
class _Pictures:
    """Hands out image prompts in order of appearance."""

    prompts: Sequence[str] | None
    typed: bool
    taken: int = 0
    hashes: list[str] = field(default_factory=list[str])

    def next(self, part: ImagePart) -> str:
        self.hashes.append(part.hash)
        if self.prompts is None:
            return part.prompt
        if self.taken >= len(self.prompts):
            raise UserError(f"more pictures in the messages than image prompts ({len(self.prompts)}); give one for each")
        self.taken += 1
        return self.prompts[self.taken - 1]

    def check(self) -> None:
        if self.prompts is not None and self.taken != len(self.prompts):
            raise UserError(f"{len(self.prompts)} image prompts given, but the messages hold {self.taken} pictures")


def render(messages: Sequence[Any], options: Options | None = None) -> list[RenderedMessage]:
    """The whole conversation: global options, messages, one-shot options, generation prefix.

    Raises UserError for what cannot be rendered, naming the message.
    """
    options = options or Options()
    read = order_results(read_messages(messages, lenient=options.lenient))
    rendered = global_options(options)
    rendered += render_messages(read, options)
    rendered += one_shot_options(options)
    if options.generation_prefix:
        rendered.append(generation_prefix(len(messages), options.thinking))
    return rendered


def render_messages(messages: Sequence[ChatMessage], options: Options, calls: Sequence[WireCall] = ()) -> list[RenderedMessage]:
    """Messages in order; `calls` are those of the assistant message before them. Raises UserError."""
    pictures = _Pictures(options.image_prompts, typed=options.lenient)
    rendered: list[RenderedMessage] = []
    result = 0
    for message in messages:
        pictures.hashes = []
        if message.role == "assistant":
            calls, result = message.calls, 0
            head = tuple(_assistant_head(message.name, options.thinking))
            pieces = head + assistant_body(message, options.thinking, pictures)
        else:
            if message.role == "tool":
                result += 1
            pieces = tuple(_given_message(message, result, calls, pictures))
            head = pieces
        rendered.append(
            RenderedMessage(
                index=message.index, role=message.role, pieces=pieces, given=len(head), images=tuple(pictures.hashes)
            )
        )
    pictures.check()
    return rendered


def global_options(options: Options) -> list[RenderedMessage]:
    """Tool declaration, then thinking effort."""
    rendered: list[RenderedMessage] = []
    if options.tools:
        rendered.append(_option("tool-declare", tool_wire.declaration(options.tools)))
    if options.thinking and options.effort is not None:
        if options.effort not in EFFORTS:
            raise UserError(f"thinking effort {options.effort!r} is not supported; use one of {', '.join(EFFORTS)}")
        rendered.append(_option("thinking-effort", f"{EFFORT_SENTENCE}{options.effort}`."))
    return rendered


def one_shot_options(options: Options) -> list[RenderedMessage]:
    """Tool choice and response format: they hold for the next message, and stand last so that history keeps its cache."""
    rendered: list[RenderedMessage] = []
    if isinstance(options.tool_choice, str) and options.tool_choice in TOOL_CHOICES:
        rendered.append(_option("tool-choice", TOOL_CHOICES[options.tool_choice]))
    given = options.response_format
    kind = cast(Mapping[str, Any], given).get("type") if isinstance(given, Mapping) else given
    if kind in ("json_object", "json_schema"):
        body = f"The system is invoked with `response_format={kind}`.\n{JSON_ONLY}"
        if kind == "json_schema":
            schema = tool_wire.compact_json(_response_schema(options))
            body += f"\nThe JSON data must match the following schema:\n```json\n{schema}\n```"
        rendered.append(_option("response-format", body))
    return rendered


def generation_prefix(index: int, thinking: bool) -> RenderedMessage:
    """Where the policy begins to write message `index`."""
    head = tuple(_assistant_head(None, thinking))
    return RenderedMessage(index=index, role="assistant", pieces=head, given=len(head))


def assistant_body(message: ChatMessage, thinking: bool, pictures: _Pictures | None = None) -> tuple[Piece, ...]:
    """What the policy writes after the generation prefix, end of message included."""
    return tuple(_assistant_body(message, thinking, pictures or _Pictures(None, typed=False)))


def _assistant_head(name: str | None, thinking: bool) -> Iterator[Piece]:
    yield from _open("message", ("role", "assistant"), *_named(name))
    yield from _open("think" if thinking else "response")


def _assistant_body(message: ChatMessage, thinking: bool, pictures: _Pictures) -> Iterator[Piece]:
    if thinking:
        yield from _text(message.reasoning, pictures)
        yield from _close("think")
        yield from _open("response")
    yield from _content(message.content, pictures)
    yield from _close("response")
    if message.calls:
        yield from _open("tools")
        for index, call in enumerate(message.calls, 1):
            yield from _call(call, index, pictures)
        yield from _close("tools")
    yield from _end()


def _call(call: WireCall, index: int, pictures: _Pictures) -> Iterator[Piece]:
    yield from _open("call", ("tool", call.tool), ("index", str(index)))
    if call.raw is not None:
        block = [*_open("json", ("type", "object")), *_text(call.raw, pictures), *_close("json")]
        yield from (piece._replace(learned=False) for piece in block)
    for key, value in call.arguments.items():
        yield from _open("argument", ("key", str(key)), ("type", tool_wire.wire_type(value)))
        yield from _text(tool_wire.wire_value(value), pictures)
        yield from _close("argument")
    yield from _close("call")


def _given_message(message: ChatMessage, result: int, calls: Sequence[WireCall], pictures: _Pictures) -> Iterator[Piece]:
    """A message that the policy reads."""
    if message.tools:
        yield from _option("tool-declare", tool_wire.declaration(message.tools, extends=True)).pieces
        return
    if message.role == "tool":
        tool = message.tool
        if tool is None and result <= len(calls):
            tool = calls[result - 1].tool
        if tool is None:
            raise UserError(f"message {message.index} (tool): no call precedes it; state `tool`, or the call's `tool_call_id`")
        yield from _open("message", ("role", "tool"), ("tool", tool), ("index", str(result)))
    else:
        yield from _open("message", ("role", message.role), *_named(message.name))
    yield from _content(message.content, pictures)
    yield from _end()


def _option(kind: str, body: str) -> RenderedMessage:
    pieces = (*_open("message", ("role", "system"), ("type", kind)), Piece(body, False), *_end())
    return RenderedMessage(index=OPTION, role="system", pieces=pieces, given=len(pieces))


def _response_schema(options: Options) -> Any:
    if options.response_schema is not None:
        return options.response_schema
    given = options.response_format
    stated = cast(Mapping[str, Any], given).get("json_schema") if isinstance(given, Mapping) else None
    if not isinstance(stated, Mapping):
        return stated
    schema = cast(Mapping[str, Any], stated)
    return schema.get("schema", schema.get("json_schema", schema))


def _content(content: Sequence[Part], pictures: _Pictures) -> Iterator[Piece]:
    for part in content:
        if isinstance(part, ImagePart):
            yield Piece(pictures.next(part), True)
        else:
            yield from _text(part, pictures)


def _text(text: str, pictures: _Pictures) -> Iterator[Piece]:
    parts = text.split(IMAGE_PLACEHOLDER) if pictures.typed and pictures.prompts is not None else [text]
    for n, part in enumerate(parts):
        if n:
            yield Piece(pictures.next(ImagePart()), True)
        if part:
            yield Piece(part, False)


def _named(name: str | None) -> tuple[tuple[str, str], ...]:
    return (("name", name),) if name else ()


def _open(tag: str, *attributes: tuple[str, str]) -> Iterator[Piece]:
    yield Piece(OPEN, True)
    yield Piece(tag, False)
    for key, value in attributes:
        yield Piece(f" {key}", False)
        yield Piece('="', False)
        if value:
            yield Piece(escape(value), False)
        yield Piece('"', False)
    yield Piece(SEP, True)


def _close(tag: str) -> Iterator[Piece]:
    yield Piece(CLOSE, True)
    yield Piece(tag, False)
    yield Piece(SEP, True)


def _end() -> Iterator[Piece]:
    yield from _close("message")
    yield Piece(END_OF_MSG, True)


def escape(value: str) -> str:
    """An attribute's value on the wire."""
    return value.replace("&", "&amp;").replace('"', "&quot;")


def unescape(value: str) -> str:
    """Inverse of `escape`."""
    return value.replace("&quot;", '"').replace("&amp;", "&")

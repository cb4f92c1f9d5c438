"""What a policy has before it: the token rows of an episode, and what a new one is opened with when history is rewritten."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from ninefold.agent.harness.compaction import Compaction
from ninefold.agent.harness.compose import AnyHarness
from ninefold.agent.harness.context import Exchange
from ninefold.agent.harness.prompt import pictures, shown
from ninefold.agent.harness.transcript import Transcript
from ninefold.chat.messages import call_id
from ninefold.core.picture import Picture
from ninefold.core.protocols import ChatFormat, Completion, Message, Tool
from ninefold.core.types import IntArray, Row, Segment, Slot


@dataclass(slots=True, kw_only=True)
class Standing:
    """Where the row that grows stands, and what it began with, as data."""

    message: int = 0
    """Index of the assistant message in progress within the row's conversation."""
    summarising: bool = False
    """Whether the message in progress is the summary of a row that is closed behind it."""
    summary: str | None = None
    """What the row in progress began with, where it is not the first."""
    todo: str = ""
    """The list that stands behind the summary."""
    notes: list[str] = field(default_factory=list[str])
    """What the harness said behind the opening, as a user."""


class History:
    """Grows by what is sampled and by what comes of it. Rows only grow: whatever rewrites history opens a new one, from the
    prompt (or a summary in its place) and the exchanges that are kept."""

    def __init__(
        self,
        *,
        slot: Slot,
        harness: AnyHarness,
        chat: ChatFormat,
        tools: Sequence[Tool],
        rows: Sequence[Row] = (),
        standing: Standing | None = None,
        exchanges: Sequence[Exchange] = (),
        shown: Iterable[Picture] = (),
    ) -> None:
        self._slot, self._harness, self._chat, self._tools = slot, harness, chat, tools
        self._transcript = Transcript(rows)
        self._exchanges = list(exchanges)
        self._shown = {picture.hash: picture for picture in shown}
        self.standing = standing or Standing()

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows; the last one grows."""
        return self._transcript.rows

    @property
    def row(self) -> int:
        """Index of the row that grows."""
        return self._transcript.row

    @property
    def ids(self) -> IntArray:
        """[tokens] of the row that grows."""
        return self._transcript.ids

    @property
    def tokens(self) -> int:
        """Length of the row that grows."""
        return self._transcript.tokens

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """What a new row would go on with, where there may be one."""
        return tuple(self._exchanges)

    @property
    def shown(self) -> tuple[Picture, ...]:
        """Every picture that was shown."""
        return tuple(self._shown.values())

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """Those in the row that grows, in its order."""
        return tuple(self._shown[image] for image in self._transcript.images) if self._shown else ()

    @property
    def prompt(self) -> tuple[Segment, ...]:
        """What stood there before anything was sampled."""
        return tuple(takewhile(lambda segment: segment.source == "rendered", self.rows[0].segments))

    @property
    def message(self) -> tuple[Segment, ...]:
        """The pieces sampled so far of the message in progress."""
        return self._transcript.message

    @property
    def message_ids(self) -> IntArray:
        """[tokens] of that message."""
        length = sum(len(segment.ids) for segment in self.message)
        return self.ids[self.tokens - length :]

    def begin(self, prompt: Sequence[Segment] | None = None) -> None:
        """Open the first row; `prompt` is its rendering, where there is one already."""
        self._shown |= {picture.hash: picture for picture in pictures(self._slot.task)}
        opening = self._harness.messages(self._slot.task)
        self._open(self._rendered(opening) if prompt is None else prompt, len(opening))

    def say(self, completion: Completion) -> None:
        """Append what was sampled of the message in progress."""
        if len(completion.ids):
            self._transcript.append(
                Segment(
                    ids=completion.ids,
                    source="sampled",
                    message=self.standing.message,
                    logprobs=completion.logprobs,
                    policy_version=completion.policy_version,
                    finish_reason=completion.finish,
                )
            )

    def follow(self, exchange: Exchange) -> bool:
        """Append what came of the last message, or open a shortened row where the context policy wants one; False where
        neither fits."""
        policy, limit = self._harness.context, self._slot.task.limits.context
        self._shown |= {picture.hash: picture for some in exchange.pictures for picture in some}
        rendered, tokens = self._measured(exchange)
        if policy.kind != "none" or self._harness.patience:
            self._exchanges.append(exchange)
        if policy.due(tokens, limit):
            shortened = policy.shorten(self._exchanges, tokens / limit)
            if shortened != self._exchanges:
                self._exchanges = shortened
                self._reopen()
                return True
        ask = policy.asks(tokens, limit)
        if ask:
            exchange = replace(exchange, notes=(*exchange.notes, ask))
            rendered, tokens = self._measured(exchange)
        if tokens >= limit:
            return False
        self._transcript.append(*rendered)
        self.standing.message += exchange.messages
        self.standing.summarising = bool(ask)
        return True

    def refuse(self, note: str) -> None:
        """Drop the last message: a new row goes on with `note` in its place."""
        if self._exchanges:
            last = self._exchanges[-1]
            self._exchanges[-1] = replace(last, notes=(*last.notes, note))
        else:
            self.standing.notes.append(note)
        self._reopen()

    def summarise(self, summary: str) -> None:
        """Go on in a new row from a summary and what survives beside it."""
        policy, standing = self._harness.context, self.standing
        assert isinstance(policy, Compaction)
        standing.todo = policy.last_todo(self._exchanges) or standing.todo
        standing.summarising, standing.summary, standing.notes = False, summary, []
        self._exchanges = policy.kept(self._exchanges, self._slot.task.limits.context)
        self._reopen()

    def _reopen(self) -> None:
        """A new row from the opening and the exchanges as they are now."""
        standing, opening = self.standing, self._harness.messages(self._slot.task)
        prompt: Sequence[Segment] = self.prompt
        if standing.summary is not None or standing.notes:
            if standing.summary is not None:
                assert isinstance(self._harness.context, Compaction)
                opening = self._harness.context.opening(opening, standing.summary, standing.todo)
            opening = [*opening, *({"role": "user", "content": note} for note in standing.notes)]
            prompt = self._rendered(opening)
        self._open(prompt, len(opening))

    def _open(self, prompt: Sequence[Segment], message: int) -> None:
        """A new row: the prompt, then the exchanges from message `message` on."""
        segments = list(prompt)
        for exchange in self._exchanges:
            segments += [*exchange.as_context(message), *self._results(exchange, message)]
            message += exchange.messages
        self._transcript.open(segments)
        self.standing.message = message

    def _rendered(self, opening: Sequence[Message]) -> Sequence[Segment]:
        return self._chat.open(opening, tools=self._harness.schemas(self._tools), effort=self._slot.effort)

    def _measured(self, exchange: Exchange) -> tuple[list[Segment], int]:
        """(the results of the message in progress, how long the row would be with them)."""
        rendered = self._results(exchange, self.standing.message)
        return rendered, self.tokens + sum(len(segment.ids) for segment in rendered)

    def _results(self, exchange: Exchange, message: int) -> list[Segment]:
        """The results of message `message`, and the prefix of the next one."""
        seen = exchange.pictures or ((),) * len(exchange.calls)
        messages: list[Message] = [
            {"role": "tool", "tool_call_id": call_id(number), "name": call.tool, "content": shown(some, text)}
            for number, (call, text, some) in enumerate(zip(exchange.calls, exchange.results, seen), 1)
        ]
        messages += [{"role": "user", "content": note} for note in exchange.notes]
        return self._chat.extend(messages, message=message + 1, calls=exchange.calls)

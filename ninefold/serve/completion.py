"""From a chat request to a chat completion, whole or streamed."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ninefold.chat.messages import tool_call
from ninefold.chat.xtml import Xtml
from ninefold.core.errors import EngineError, NinefoldError, UserError, boundary
from ninefold.core.picture import Picture
from ninefold.core.seeds import seed_of
from ninefold.media.parts import take_pictures
from ninefold.serve.errors import ApiError, broken, invalid, no_model, overloaded, too_long
from ninefold.serve.generation import EngineLoop, Generation
from ninefold.serve.reply import Delta, Reply
from ninefold.serve.request import ChatRequest


@dataclass(frozen=True, kw_only=True)
class Service:
    """A model being served."""

    loop: EngineLoop
    chat: Xtml
    model: str
    """Its name in requests."""
    context: int
    """Tokens of prompt and answer together."""
    limit: int = 64
    """Generations at a time."""
    constrain: bool = True
    """Every answer is held to well-formed messages. False leaves requests without tools free, so that a draft can propose."""
    picture_tokens: Callable[[Picture], int] | None = None
    """Tokens of the context that a picture takes; UserError where the model cannot take it. None: it reads no pictures."""
    created: int = 0
    """When the model was made, in seconds since the epoch."""

    def complete(self, request: ChatRequest) -> ChatCompletion:
        """Check the request and render its prompt. Raises ApiError."""
        if request.model != self.model:
            raise no_model(request.model, self.model)
        request.check(sees=self.picture_tokens is not None)
        tools, choice = request.callable_tools()
        try:
            messages, pictures = take_pictures(request.messages)
            segments = self.chat.open(
                messages,
                tools=request.tools or [],
                effort=request.reasoning_effort or "max",
                tool_choice="required" if choice == "required" else None,
            )
        except UserError as error:
            raise invalid(str(error), "messages") from None
        try:
            grammar = self.chat.grammar(tools, tool_choice=choice) if tools or self.constrain else None
        except UserError as error:
            raise invalid(str(error), "tools") from None
        ids = np.concatenate([segment.ids for segment in segments]).astype(np.int32)
        shown = tuple(pictures[image] for segment in segments for image in segment.images)
        prompt = len(ids) + self._behind(shown)
        if prompt >= self.context:
            raise too_long(prompt, self.context)
        choices = request.n or 1
        if self.loop.in_flight + choices > self.limit:
            raise overloaded(self.limit)
        seed = secrets.randbits(62) if request.seed is None else request.seed
        generations = [
            Generation(
                ids=ids,
                max_new=min(request.limit or self.context, self.context - prompt),
                seed=seed_of("choice", seed, index),
                temperature=1.0 if request.temperature is None else request.temperature,
                top_p=1.0 if request.top_p is None else request.top_p,
                grammar=grammar,
                pictures=shown,
            )
            for index in range(choices)
        ]
        replies = [
            Reply(self.chat, stops=request.stops, logprobs=bool(request.logprobs), calls=bool(tools)) for _ in generations
        ]
        return ChatCompletion(service=self, request=request, prompt=prompt, generations=generations, replies=replies)

    def _behind(self, pictures: Sequence[Picture]) -> int:
        """Tokens of the context that pictures take beside their placeholders. Raises ApiError."""
        if self.picture_tokens is None:
            return 0
        try:
            return sum(self.picture_tokens(picture) - 1 for picture in pictures)
        except UserError as error:
            raise invalid(str(error), "messages") from None


class ChatCompletion:
    """One request being answered."""

    def __init__(
        self, *, service: Service, request: ChatRequest, prompt: int, generations: list[Generation], replies: list[Reply]
    ) -> None:
        """`prompt`: its tokens, those that pictures take counted."""
        self._service, self._request, self.prompt_tokens = service, request, prompt
        self._generations, self._replies = generations, replies
        self._cached = [0] * len(generations)
        self._id = f"chatcmpl-{secrets.token_hex(12)}"
        self._created = int(time.time())

    @property
    def tokens(self) -> int:
        """Sampled so far, over all choices."""
        return sum(reply.tokens for reply in self._replies)

    async def whole(self) -> dict[str, Any]:
        """The answer in one piece. Raises ApiError."""
        messages: list[dict[str, Any]] = [{"role": "assistant", "content": None} for _ in self._replies]
        logprobs: list[list[dict[str, Any]]] = [[] for _ in self._replies]
        async for index, delta in self.deltas():
            message = messages[index]
            for name, text in (("reasoning_content", delta.reasoning), ("content", delta.content)):
                if text:
                    message[name] = (message.get(name) or "") + text
            if delta.call is not None:
                message.setdefault("tool_calls", []).append(tool_call(delta.call[1], self._call_id(index, delta)))
            logprobs[index] += delta.logprobs
        choices = [
            {
                "index": index,
                "message": message,
                "finish_reason": self._replies[index].finish,
                "logprobs": {"content": logprobs[index], "refusal": None} if self._request.logprobs else None,
            }
            for index, message in enumerate(messages)
        ]
        return {**self._head("chat.completion"), "choices": choices, "usage": self._usage()}

    async def events(self) -> AsyncIterator[str]:
        """The answer as server-sent events; an error on the way is the last of them."""
        try:
            for index in range(len(self._replies)):
                yield self._event(index, {"role": "assistant", "content": ""})
            async for index, delta in self.deltas():
                yield self._event(index, self._delta_record(index, delta), delta)
            if self._request.include_usage:
                yield _sse({**self._head("chat.completion.chunk"), "choices": [], "usage": self._usage()})
            yield "data: [DONE]\n\n"
        except ApiError as error:
            yield _sse(error.body)

    async def deltas(self) -> AsyncIterator[tuple[int, Delta]]:
        """Deltas of all choices in order of arrival; an empty one ends a choice. Raises ApiError."""
        arrived: asyncio.Queue[tuple[int, Delta] | NinefoldError | None] = asyncio.Queue()
        tasks = [asyncio.create_task(self._grow(index, arrived)) for index in range(len(self._replies))]
        try:
            growing = len(tasks)
            while growing:
                item = await arrived.get()
                if isinstance(item, UserError):
                    raise invalid(str(item), "messages")
                if isinstance(item, NinefoldError):
                    raise broken(str(item))
                if item is None:
                    growing -= 1
                else:
                    yield item
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _grow(self, index: int, arrived: asyncio.Queue[tuple[int, Delta] | NinefoldError | None]) -> None:
        reply = self._replies[index]
        stream = self._service.loop.stream(self._generations[index])
        # Whatever goes wrong is handed on, or the reader of the queue would wait for ever.
        with boundary(EngineError, "answering failed", catch=arrived.put_nowait):
            try:
                async for part in stream:
                    self._cached[index] += part.cached
                    for delta in reply.take(part):
                        arrived.put_nowait((index, delta))
                    if reply.finish is not None:
                        break
                arrived.put_nowait((index, Delta()))
                arrived.put_nowait(None)
            finally:
                await stream.aclose()  # type: ignore[attr-defined]

    def _delta_record(self, index: int, delta: Delta) -> dict[str, Any]:
        record: dict[str, Any] = {}
        if delta.reasoning:
            record["reasoning_content"] = delta.reasoning
        if delta.content:
            record["content"] = delta.content
        if delta.call is not None:
            number, call = delta.call
            record["tool_calls"] = [{"index": number, **tool_call(call, self._call_id(index, delta))}]
        return record

    def _event(self, index: int, record: dict[str, Any], delta: Delta | None = None) -> str:
        ends = delta == Delta()
        choice: dict[str, Any] = {
            "index": index,
            "delta": record,
            "finish_reason": self._replies[index].finish if ends else None,
        }
        if self._request.logprobs:
            choice["logprobs"] = {"content": list(delta.logprobs), "refusal": None} if delta and delta.logprobs else None
        usage = {"usage": None} if self._request.include_usage else {}
        return _sse({**self._head("chat.completion.chunk"), "choices": [choice], **usage})

    def _call_id(self, index: int, delta: Delta) -> str:
        assert delta.call is not None
        return f"call_{self._id.removeprefix('chatcmpl-')}_{index}_{delta.call[0]}"

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self._id, "object": kind, "created": self._created, "model": self._service.model}

    def _usage(self) -> dict[str, Any]:
        prompt = self.prompt_tokens
        sampled = self.tokens
        reasoning = sum(reply.reasoning_tokens for reply in self._replies)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": sampled,
            "total_tokens": prompt + sampled,
            "prompt_tokens_details": {"cached_tokens": min(self._cached)},
            "completion_tokens_details": {"reasoning_tokens": reasoning},
        }


def _sse(value: dict[str, Any]) -> str:
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"

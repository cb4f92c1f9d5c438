"""The engine thread: leaving early, several at once, failures; and stop sequences over any slicing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninefold.chat.xtml import Xtml
from ninefold.core.errors import EngineError, UserError
from ninefold.core.picture import Picture
from ninefold.core.protocols import Request
from ninefold.core.types import IntArray
from ninefold.engine.native import NativeConfig, NativeEngine
from ninefold.engine.scripted import ScriptedEngine
from ninefold.model.k3 import K3
from ninefold.model.presets import preset
from ninefold.serve.completion import Service
from ninefold.serve.errors import ApiError
from ninefold.serve.generation import SLICE, EngineLoop, Generation
from ninefold.serve.reply import StopText
from ninefold.serve.request import ChatRequest

PROMPT = np.arange(5, dtype=np.int32)
FOREVER = 10**9


def endless(request: Request) -> IntArray:
    """Counts on from the row's length and never stops."""
    return np.arange(len(request.ids), len(request.ids) + SLICE + 1, dtype=np.int32)


@pytest.fixture
def started() -> Iterator[Callable[[Callable[[Request], IntArray]], EngineLoop]]:
    loops: list[EngineLoop] = []

    def start(respond: Callable[[Request], IntArray]) -> EngineLoop:
        loops.append(EngineLoop(ScriptedEngine(respond)))
        loops[-1].start()
        return loops[-1]

    yield start
    for loop in loops:
        loop.close()


async def until_idle(loop: EngineLoop) -> None:
    async with asyncio.timeout(30):
        while loop.in_flight:
            await asyncio.sleep(0.005)


def test_slices_are_one_stream(started: Callable[..., EngineLoop]) -> None:
    async def read(max_new: int) -> list[int]:
        asked = Generation(ids=PROMPT, max_new=max_new, seed=0)
        return [i async for part in started(endless).stream(asked) for i in part.ids.tolist()]

    for max_new in (1, SLICE, 3 * SLICE + 1):
        assert asyncio.run(read(max_new)) == list(range(5, 5 + max_new))


def test_who_leaves_ends_the_generation(started: Callable[..., EngineLoop]) -> None:
    loop = started(endless)

    async def leave() -> None:
        streams = [loop.stream(Generation(ids=PROMPT, max_new=FOREVER, seed=n)) for n in range(3)]
        for stream in streams:
            await anext(stream)
        assert loop.in_flight == 3
        for stream in streams:
            await stream.aclose()
        await until_idle(loop)

    asyncio.run(leave())


def test_the_slice_of_who_left_is_not_sampled() -> None:
    seen, gate = list[str](), threading.Event()

    def respond(request: Request) -> IntArray:
        seen.append(request.id)
        assert gate.wait(30)
        return endless(request)

    loop = EngineLoop(ScriptedEngine(respond))

    async def leave() -> None:
        streams = [loop.stream(Generation(ids=PROMPT, max_new=SLICE, seed=n)) for n in range(2)]
        stays, leaves = (asyncio.ensure_future(anext(stream)) for stream in streams)
        await asyncio.sleep(0)
        loop.start()
        while not seen:
            await asyncio.sleep(0.005)
        leaves.cancel()
        await asyncio.gather(leaves, return_exceptions=True)
        gate.set()
        assert len((await stays).ids) == SLICE
        await until_idle(loop)

    asyncio.run(leave())
    loop.close()
    assert seen == ["g0.0"]


def test_a_cancelled_request_ends_all_its_choices(started: Callable[..., EngineLoop], chat: Xtml) -> None:
    letter = int(chat.tokenizer.encode("a")[0])
    loop = started(lambda request: np.full(SLICE + 1, letter, np.int32))
    service = Service(loop=loop, chat=chat, model="m", context=FOREVER)

    async def cancel() -> None:
        request = ChatRequest(model="m", messages=[{"role": "user", "content": "go"}], n=3)
        whole = asyncio.create_task(service.complete(request).whole())
        events = service.complete(request).events()
        assert [await anext(events) for _ in range(4)]
        assert loop.in_flight == 6
        whole.cancel()
        await events.aclose()
        await until_idle(loop)

    asyncio.run(cancel())


def test_only_tools_constrain_where_a_draft_may_propose(started: Callable[..., EngineLoop], chat: Xtml) -> None:
    seen: list[bool] = []
    calling = chat.completion(
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "clock", "arguments": "{}"}}]}
    )

    def respond(request: Request) -> IntArray:
        seen.append(request.allowed is not None)
        return calling[len(request.ids) - prompt :]

    async def ask(constrain: bool, tools: list[dict[str, Any]]) -> dict[str, Any]:
        nonlocal prompt
        service = Service(loop=loop, chat=chat, model="m", context=512, constrain=constrain)
        request = ChatRequest(model="m", messages=[{"role": "user", "content": "go"}], tools=tools)
        whole = service.complete(request)
        prompt = whole.prompt_tokens
        return (await whole.whole())["choices"][0]

    prompt, loop = 0, started(respond)
    clock = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "properties": {}}}}
    free = asyncio.run(ask(False, []))
    assert not any(seen)
    assert free["finish_reason"] == "stop"
    assert "tool_calls" not in free["message"]
    for constrain, tools in ((False, [clock]), (True, [])):
        seen.clear()
        asyncio.run(ask(constrain, tools))
        assert all(seen)


def test_a_failing_engine_is_reported_to_all(started: Callable[..., EngineLoop], chat: Xtml) -> None:
    def fail(request: Request) -> IntArray:
        raise RuntimeError("no more tokens")

    loop = started(fail)
    service = Service(loop=loop, chat=chat, model="m", context=512)
    request = ChatRequest(model="m", messages=[{"role": "user", "content": "go"}], n=2)

    async def ask() -> None:
        with pytest.raises(ApiError, match="no more tokens") as caught:
            await service.complete(request).whole()
        assert caught.value.status == 500
        with pytest.raises(EngineError, match="no more tokens"):
            await anext(loop.stream(Generation(ids=PROMPT, max_new=1, seed=0)))

    asyncio.run(ask())
    assert "no more tokens" in str(loop.failure)


def test_a_request_that_the_engine_refuses_fails_alone() -> None:
    model = K3(preset("nano-vision", 256))
    loop = EngineLoop(NativeEngine(model, stop_ids=(), config=NativeConfig(rows=2, capacity=64)))
    loop.start()
    grey = Picture.of(np.full((24, 24, 3), 128, np.uint8))

    async def ask() -> None:
        with pytest.raises(UserError, match="picture"):
            await anext(loop.stream(Generation(ids=PROMPT, max_new=1, seed=0, pictures=(grey,))))
        async with asyncio.timeout(60):
            assert len((await anext(loop.stream(Generation(ids=PROMPT, max_new=1, seed=0)))).ids) == 1
        await until_idle(loop)

    try:
        asyncio.run(ask())
    finally:
        loop.close()
    assert loop.failure is None


@given(st.text("abc", max_size=30), st.lists(st.text("abc", min_size=1, max_size=4), max_size=3), st.data())
def test_stop_text_cuts_at_the_stop_that_is_complete_first_however_text_arrives(
    text: str, stops: list[str], data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)])]
    stop = StopText(stops)
    shown = "".join(stop.push(part) for part in parts) + stop.flush()
    ends = [(text.find(s) + len(s), text.find(s)) for s in stops if s in text]
    assert stop.hit == bool(ends)
    assert shown == (text[: min(ends)[1]] if ends else text)

"""The conversation on the terminal, over a scripted engine."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from ninefold.app.talk import Talk
from ninefold.chat.tokenizer import Tokenizer
from ninefold.chat.xtml import Xtml, wire_phrases
from ninefold.core.errors import UserError
from ninefold.core.protocols import Request
from ninefold.core.types import IntArray
from ninefold.engine.scripted import ScriptedEngine
from ninefold.media.png import to_png
from ninefold.media.scene import draw
from ninefold.serve.completion import Service
from ninefold.serve.generation import EngineLoop

CHAT = Xtml(Tokenizer.train(["it is clear"] * 3, wire_phrases(), 400))


@pytest.fixture
def prompts() -> dict[str, IntArray]:
    """Session → the prompt that the engine was given."""
    return {}


@pytest.fixture
def service(prompts: dict[str, IntArray]) -> Iterator[Service]:
    written = CHAT.completion({"role": "assistant", "reasoning_content": "hmm", "content": "it is clear"})

    def respond(request: Request) -> IntArray:
        return written[len(request.ids) - len(prompts.setdefault(request.session, request.ids)) :]

    loop = EngineLoop(ScriptedEngine(respond))
    loop.start()
    yield Service(loop=loop, chat=CHAT, model="m", context=512)
    loop.close()


def test_answers_are_streamed_and_remembered(service: Service, prompts: dict[str, IntArray]) -> None:
    console = Console(file=io.StringIO(), width=100)
    talk = Talk(service, console, effort="low", options={"temperature": 0.5})
    talk.answer("is it?")
    talk.answer("sure?")
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert shown.count("hmm\nit is clear\n[low: ") == 2
    first, second = (CHAT.decode(ids) for ids in prompts.values())
    assert "thinking_effort=low" in first
    assert "sure?" not in first
    for part in ("is it?", "hmm", "it is clear", "sure?"):
        assert second.count(part) == 1


def test_what_does_not_fit_is_forgotten(service: Service, prompts: dict[str, IntArray]) -> None:
    talk = Talk(service, Console(file=io.StringIO()), effort="max", options={})
    with pytest.raises(UserError, match="512"):
        talk.answer("far " * 600)
    talk.answer("is it?")
    assert "far" not in CHAT.decode(*prompts.values())


def test_commands(service: Service, prompts: dict[str, IntArray], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("is it?\n/effort low\n/effort medium\n/new\nsure?\n/quit\nmore\n"))
    console = Console(file=io.StringIO(), width=100)
    Talk(service, console, effort="high", options={}).loop()
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().count("commands:") == 1
    first, second = (CHAT.decode(ids) for ids in prompts.values())
    assert "thinking_effort=high" in first
    assert "thinking_effort=low" in second
    assert "is it?" not in second


def test_pictures_are_shown_once_or_refused(service: Service, prompts: dict[str, IntArray], tmp_path: Path) -> None:
    picture = draw({"kind": "bars", "width": 24, "height": 12, "bars": [["red", 1]], "most": 2})
    (tmp_path / "a.png").write_bytes(to_png(picture))
    console = Console(file=io.StringIO(), width=200)
    talk = Talk(replace(service, picture_tokens=lambda picture: 4), console, effort="low", options={})
    talk.show(tmp_path / "a.png")
    talk.show(tmp_path / "b.png")
    talk.answer("what is it?")
    talk.answer("sure?")
    assert isinstance(console.file, io.StringIO)
    assert "[picture 24×12]" in console.file.getvalue()
    assert "b.png" in console.file.getvalue()
    for ids in prompts.values():
        assert CHAT.decode(ids).count("image 24x12") == (ids == CHAT.placeholder).sum() == 1
    wide = Talk(replace(service, picture_tokens=lambda picture: service.context), console, effort="low", options={})
    wide.show(tmp_path / "a.png")
    with pytest.raises(UserError, match="context holds 512 tokens"):
        wide.answer("what is it?")
    blind = Talk(service, console, effort="low", options={})
    blind.show(tmp_path / "a.png")
    with pytest.raises(UserError, match="text only"):
        blind.answer("what is it?")

"""Pictures in conversations of one's own."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from ninefold.app.transcript import masked_text
from ninefold.core.errors import UserError
from ninefold.data.conversations import bytewise, read_conversations
from ninefold.data.samples import sample_of_segments
from ninefold.media.parts import picture_part
from ninefold.media.scene import draw

PICTURE = draw({"kind": "bars", "width": 24, "height": 12, "bars": [["red", 1]], "most": 2})


def line(part: object) -> str:
    user = {"role": "user", "content": [part, {"type": "text", "text": "Which colour?"}]}
    return json.dumps({"messages": [user, {"role": "assistant", "content": "red"}]}) + "\n"


def test_a_picture_comes_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text(line(picture_part(PICTURE)))
    chat = bytewise()
    (read,) = read_conversations(tmp_path / "own.jsonl", chat)
    sample = sample_of_segments(read.segments, pictures=read.pictures)
    assert sample.pictures == (PICTURE,)
    assert (sample.ids == chat.placeholder).sum() == 1
    assert not sample.mask[sample.ids == chat.placeholder].any()
    console = Console(file=io.StringIO())
    shown = "".join(masked_text(segment, chat.tokenizer, console).plain for segment in read.segments)
    assert "[picture 24×12]Which colour?" in shown
    assert "media" not in shown


def test_a_picture_without_pixels_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text(line({"type": "image", "width": 4, "height": 4}))
    with pytest.raises(UserError, match="data URI"):
        read_conversations(tmp_path / "own.jsonl", bytewise())

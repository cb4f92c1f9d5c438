"""`ninefold task play`: what cannot be understood is told in our words and costs no turn, and pictures do not stay behind."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from ninefold.agent.env import family
from ninefold.app.cli import app
from ninefold.app.hand import Hand
from ninefold.core.protocols import Move
from ninefold.core.types import Call


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/", "name a tool behind the /; there are lookup, send"),
        ('/lookup key="x', 'lookup key="x: a quote is not closed'),
        ("/lookup key=x\\", "nothing follows a backslash"),
        ("@{folder}", "{folder} is a folder; name a file"),
        ("/lookup key=@{folder}", "{folder} is a folder; name a file"),
        ("@{folder}/none", "there is no file {folder}/none"),
        ("@{folder}/bytes", "{folder}/bytes is no text in UTF-8"),
        ("@a\0", "there is no file a"),
        ("\udcff", "this line is no text in UTF-8"),
        ("/rm x=1", "there is no tool 'rm'; there are lookup, send"),
    ],
)
def test_what_is_no_move_is_told_and_costs_no_turn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, told: str
) -> None:
    (tmp_path / "bytes").write_bytes(b"a\xff")
    assistant = family("assistant")
    lines = iter([line.format(folder=tmp_path), "/lookup key=x"])
    hand = Hand(assistant, assistant.generate("train", 0, 0), Console(width=200), lambda: next(lines), tmp_path)
    assert hand.move([]) == Move(calls=(Call(tool="lookup", arguments={"key": "x"}),))
    shown = capsys.readouterr().out
    assert told.format(folder=tmp_path) in shown
    assert "turn 2" not in shown
    for words in ("Errno", "codec", "quotation", "unpack", "escaped character"):
        assert words not in shown


def test_arguments_that_are_no_json_are_told_what_to_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    visual = family("visual")
    task = replace(visual.generate("train", 0, 0), tools=("media",))
    lines = iter(["/media path=a.png region={left", "/media path=a.png region='{\"left\": 1}'"])
    move = Hand(visual, task, Console(width=200), lambda: next(lines), tmp_path).move([])
    assert move.calls[0].arguments == {"path": "a.png", "region": {"left": 1}}
    assert "region is of type object: write it as JSON" in capsys.readouterr().out


def test_pictures_do_not_stay_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    played = CliRunner().invoke(app, ["task", "play", "picture"], input="/give-up\n")
    assert played.exit_code == 0, played.output
    played = CliRunner().invoke(app, ["task", "play", "visual"], input="/give-up\n")
    if played.exit_code != 3:
        assert f"picture: {tmp_path}" in played.output
    assert list(tmp_path.iterdir()) == []

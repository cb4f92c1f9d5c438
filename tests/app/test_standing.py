"""`ninefold world`: refusals that say what to do, and the verdict of a world that nobody serves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ninefold.agent.env import family
from ninefold.app.cli import app
from ninefold.serve.stored import StoredWorld


def call(*words: str, status: int = 0) -> str:
    result = CliRunner().invoke(app, ["world", *words])
    assert result.exit_code == status, result.output
    return result.output


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--host", "0.0.0.0"], "give it a --token"),
        (["--token", "t", "--owner-token", "t"], "an agent could judge itself"),
        (["--level", "5"], "--level 5: levels of office are 0 to 4"),
        (["--split", "test"], "--split test: splits are train, dev, heldout, corpus"),
    ],
)
def test_what_cannot_be_served_is_refused(options: list[str], told: str) -> None:
    assert told in call("serve", "office", *options, status=2)


@pytest.mark.parametrize(
    ("options", "told", "silent"),
    [
        (["--as", "zz"], "--as zz: there are openenv, mcp", "--split"),
        (["--split", "zz"], "--split zz: splits are train, dev, heldout, corpus", "--as"),
        (["--level", "99"], "--level 99: levels of assistant are 0 to 4", "--split"),
    ],
)
def test_episodes_that_cannot_be_served_name_the_option_at_fault(options: list[str], told: str, silent: str) -> None:
    result = CliRunner().invoke(app, ["task", "serve", "assistant", *options])
    assert (result.exit_code, told in result.output, silent in result.output) == (2, True, False)


def test_another_task_does_not_go_where_one_is(tmp_path: Path) -> None:
    office = family("office")
    StoredWorld.begin(tmp_path, office, office.generate("train", 0, 1)).close()
    assert "holds office/train/0/1, not office/train/0/2" in call(
        "serve", "office", "--seed", "2", "--in", str(tmp_path), "--port", "0", status=2
    )


@pytest.mark.parametrize(("file", "text"), [("notes.txt", "mine"), ("task.json", '{"mine": 1}'), ("task.json", "[]")])
def test_a_folder_of_other_files_is_left_alone(tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / file).write_text(text)
    told = call("serve", "assistant", "--in", str(tmp_path), "--port", "0", status=2)
    assert "give another folder with --in" in told
    assert [path.name for path in tmp_path.iterdir()] == [file]
    assert "is no folder" in call("serve", "assistant", "--in", str(tmp_path / file), "--port", "0", status=2)


def test_a_world_that_nobody_serves_is_judged(tmp_path: Path) -> None:
    office = family("office")
    task = office.generate("train", 0, 1)
    stored = StoredWorld.begin(tmp_path, office, task)
    stored.close()
    assert "office/train/0/1: fail, score 0: 0 of 1 criteria met" in call("judge", str(tmp_path), status=1)
    stored = StoredWorld.open(tmp_path, office)
    policy = office.gold(task)
    while (move := policy.move([])).calls:
        for made in move.calls:
            stored.call(made.tool, made.arguments)
    stored.answer("done")
    stored.close()
    told = json.loads(call("judge", str(tmp_path), "--json"))
    assert (told["status"], told["score"], told["calls"]) == ("pass", 1.0, 1)
    assert "holds no world" in call("judge", str(tmp_path / "nowhere"), status=2)

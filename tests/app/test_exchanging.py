"""`ninefold harbor`: tasks out to directories, and back into a file."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from ninefold.agent.env import family
from ninefold.app.cli import app
from ninefold.data.tasks.store import read_tasks


def test_out_and_in(tmp_path: Path) -> None:
    run = CliRunner().invoke
    written = run(
        app, ["harbor", "export", "arithmetic", str(tmp_path / "out"), "--level", "1", "--count", "2", "--split", "dev"]
    )
    assert written.exit_code == 0, written.output
    folders = [Path(line) for line in written.stdout.splitlines()]
    assert [(folder / "task.toml").is_file() for folder in folders] == [True, True]
    (tmp_path / "empty").mkdir()
    read = run(app, ["harbor", "import", *map(str, folders), str(tmp_path / "empty"), "--to", str(tmp_path / "tasks.jsonl")])
    assert read.exit_code == 0, read.output
    assert "2 of 3 tasks" in read.stdout
    assert "lacks task.toml" in read.stderr
    assert read_tasks(tmp_path / "tasks.jsonl") == [family("arithmetic").generate("dev", 1, seed) for seed in (0, 1)]


def test_what_cannot_be_is_told(tmp_path: Path) -> None:
    for argv, told in (
        (["export", "arithmetic", "x", "--level", "9"], "levels of arithmetic are 0 to 2"),
        (["export", "arithmetic", "x", "--split", "test"], "there are train, dev"),
        (["import", str(tmp_path), "--to", str(tmp_path / "t.jsonl")], "none of these directories"),
    ):
        failed = CliRunner().invoke(app, ["harbor", *argv])
        assert failed.exit_code != 0
        assert told in failed.stderr


def test_a_quote_that_is_not_closed_is_told(tmp_path: Path) -> None:
    command = ["mcp", "import", 'serve "me', "--ask", "a", "--answer", "b", "--to", str(tmp_path / "t.jsonl")]
    failed = CliRunner().invoke(app, command)
    assert (failed.exit_code, 'serve "me: a quote is not closed' in failed.stderr) == (2, True)

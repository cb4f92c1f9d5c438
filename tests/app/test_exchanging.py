"""`ninefold harbor`: tasks out to directories, and back into a file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ninefold.agent.env import family
from ninefold.app import progress
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
        (["export", "arithmetic", "x", "--split", "test"], "--split test: splits are train, dev"),
        (["import", str(tmp_path), "--to", str(tmp_path / "t.jsonl")], "none of these directories"),
    ):
        failed = CliRunner().invoke(app, ["harbor", *argv])
        assert failed.exit_code != 0
        assert told in failed.stderr


def test_a_package_says_how_far_it_is_and_has_its_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LINE_S", 0.0)
    command = ["verifiers", "export", "arithmetic", str(tmp_path / "package"), "--count"]
    written = CliRunner().invoke(app, [*command, "3"])
    assert (written.exit_code, "tasks 2/3" in written.stderr) == (0, True)
    assert written.stdout == f"ninefold_arithmetic: 3 tasks in {tmp_path / 'package'}\n"
    again = CliRunner().invoke(app, [*command, "3"])
    assert (again.exit_code, "is not empty" in again.stderr, "tasks 1/3" in again.stderr) == (2, True, False)
    for kind in ("verifiers", "harbor"):
        many = ["arithmetic", str(tmp_path / "new"), "--count", "100001", "--seed", "7"]
        failed = CliRunner().invoke(app, [kind, "export", *many])
        assert (failed.exit_code, (tmp_path / "new").exists()) == (2, False)
        assert "--count 100001: one export holds 100000 tasks at most; go on with --seed 100007" in failed.stderr


@pytest.mark.parametrize(
    ("server", "status", "told"),
    [
        ('serve "me', 2, 'serve "me: a quote is not closed'),
        (" ", 2, "name the server: a URL, or a command"),
        ("no-such-program now", 1, "the MCP server no-such-program now cannot be started"),
        ("true", 1, "the MCP server true "),
    ],
)
def test_a_server_that_cannot_be_asked_is_named(tmp_path: Path, server: str, status: int, told: str) -> None:
    command = ["mcp", "import", server, "--ask", "a", "--answer", "b", "--to", str(tmp_path / "t.jsonl")]
    failed = CliRunner().invoke(app, command)
    assert (failed.exit_code, told in failed.stderr) == (status, True), failed.output


def test_an_unknown_domain_of_tau2_is_told_those_that_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    domains = tmp_path / "src" / "tau2" / "domains"
    for name in ("retail", "mock"):
        (domains / name).mkdir(parents=True)
        (domains / name / "environment.py").touch()
    (domains / "__pycache__").mkdir()
    monkeypatch.setenv("NINEFOLD_TAU2", str(tmp_path))
    monkeypatch.setenv("NINEFOLD_TAU2_PYTHON", sys.executable)
    for domain in ("rail", "../x"):
        failed = CliRunner().invoke(app, ["tau2", "import", domain, "--to", str(tmp_path / "t.jsonl")])
        told = f"error: there is no domain {domain!r} in {domains}; there are mock, retail"
        assert (failed.exit_code, told in failed.stderr) == (2, True), failed.output

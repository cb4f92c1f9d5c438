"""`ninefold harness`: what it prints can be read by programs, and names what it does not know."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from ninefold.app.cli import app


def told(*arguments: str) -> dict:
    done = CliRunner().invoke(app, ["harness", *arguments, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_listed_shown_and_drawn_ones_agree() -> None:
    listed = {row["name"]: row for row in told("ls")["harnesses"]}
    assert listed["mini_swe"]["tools"] == ["bash"]
    shown = told("show", "pi/nano")
    assert shown["hash"] == listed["pi/nano"]["hash"]
    drawn = told("sample", "--count", "3", "--split", "heldout")["harnesses"]
    assert drawn == told("sample", "--count", "3", "--split", "heldout")["harnesses"]
    assert all(told("show", row["name"])["hash"] == row["hash"] for row in drawn)


def test_differences() -> None:
    assert told("diff", "codex", "codex")["differences"] == []
    paths = [row["path"] for row in told("diff", "pi", "pi/nano")["differences"]]
    assert "toolset.most" in paths
    assert not any(path.startswith(("context", "rules", "toolset.views")) for path in paths)


def test_what_is_unknown_is_named() -> None:
    for arguments in (["show", "nope"], ["show", "pi+pi"], ["sample", "--split", "test"]):
        done = CliRunner().invoke(app, ["harness", *arguments])
        assert done.exit_code == 2
        assert arguments[-1] in done.output

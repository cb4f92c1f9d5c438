"""What of the way to verifiers needs no verifiers: the package that is written."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ninefold.agent.env import family
from ninefold.app.cli import app
from ninefold.core.errors import SandboxUnavailable, UserError
from ninefold.data.tasks.store import read_tasks
from ninefold.data.tasks.tau2 import import_domain
from ninefold.data.tasks.verifiers.export import export_package
from ninefold.data.tasks.verifiers.load import import_taskset


def test_a_package_holds_the_tasks_and_names_its_classes(tmp_path: Path) -> None:
    argv = ["verifiers", "export", "assistant", str(tmp_path / "p"), "--level", "1", "--count", "3", "--split", "dev"]
    written = CliRunner().invoke(app, argv)
    assert written.exit_code == 0, written.output
    assert written.stdout.startswith("ninefold_assistant: 3 tasks")
    place = tmp_path / "p" / "ninefold_assistant"
    assert read_tasks(place / "tasks.jsonl") == [family("assistant").generate("dev", 1, seed) for seed in range(3)]
    project = tomllib.loads((tmp_path / "p" / "pyproject.toml").read_text())
    assert project["project"]["name"] == place.name
    module = ast.parse((place / "__init__.py").read_text())
    (names,) = [node.value for node in module.body if isinstance(node, ast.Assign)]
    assert ast.literal_eval(names) == ["Tasks", "WhiteBoxHarness"]


def test_what_cannot_be_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = [family(name).generate("dev", 0, 0) for name in ("arithmetic", "assistant")]
    with pytest.raises(UserError, match="of arithmetic, assistant"):
        export_package(tasks, tmp_path / "p")
    with pytest.raises(UserError, match="small letters"):
        export_package(tasks[:1], tmp_path / "p", "My-Tasks")
    (tmp_path / "mine.txt").write_text("keep")
    for taken in (tmp_path, tmp_path / "mine.txt"):
        with pytest.raises(UserError, match="exists and is not empty"):
            export_package(tasks[:1], taken)
    assert (tmp_path / "mine.txt").read_text() == "keep"
    for name in ("NINEFOLD_VERIFIERS_PYTHON", "NINEFOLD_TAU2", "NINEFOLD_TAU2_PYTHON"):
        monkeypatch.setenv(name, str(tmp_path / "nothing"))
    with pytest.raises(SandboxUnavailable, match="make referees"):
        import_taskset("parcels")
    with pytest.raises(SandboxUnavailable, match="no checkout"):
        import_domain("mock")
    for name in ("tau2", "verifiers"):
        assert "nothing" in str(family(name).lacks())
    failed = CliRunner().invoke(app, ["tau2", "import", "mock", "--to", str(tmp_path / "t.jsonl")])
    assert failed.exit_code != 0
    assert "no checkout" in failed.output

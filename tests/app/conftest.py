"""A recorded run in a working directory of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ninefold.core.store import Run

from .recorded import record


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: empty but for `runs/`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    return tmp_path


@pytest.fixture
def run(here: Path) -> Run:
    return record(here / "runs" / "trial")

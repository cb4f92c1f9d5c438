"""One small whole run that the tests of the recipe share."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from ninefold.core.store import Run, is_complete
from ninefold.recipes.kit import Kit
from ninefold.recipes.run import run_recipe
from tests.recipes.small import small


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """An uninterrupted run of the small recipe, made once for all processes of a test session. Tests only read it."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if shared.name.startswith("popen-") else shared
    run = Run(path=Path(shared, "whole"))
    with Path(shared, "whole.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_complete(run.stage("evaluate")):
            run_recipe(small(), run)
    return run


@pytest.fixture
def kit(whole: Run) -> Kit:
    """The tools of that run."""
    return Kit(recipe=small(), run=whole)

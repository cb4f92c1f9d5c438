"""One thread per process, no time limits on examples, the place of the golden vectors, and one small whole run."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

from ninefold.core.store import Run, is_complete  # noqa: E402
from ninefold.recipes.run import run_recipe  # noqa: E402
from tests.recipes.small import small  # noqa: E402

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

GOLDEN = Path(__file__).parents[2] / "shared" / "golden"


@pytest.fixture(scope="session")
def golden() -> Path:
    """Folder of the conformance vectors; tests that need it say plainly when it is absent."""
    if not GOLDEN.is_dir():
        pytest.skip(f"conformance vectors not found at {GOLDEN}")
    return GOLDEN


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

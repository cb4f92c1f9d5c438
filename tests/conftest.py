"""One thread per process, no time limits on examples, and the place of the golden vectors."""

from __future__ import annotations

import os
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

GOLDEN = Path(__file__).parents[2] / "shared" / "golden"


@pytest.fixture(scope="session")
def golden() -> Path:
    """Folder of the conformance vectors; tests that need it say plainly when it is absent."""
    if not GOLDEN.is_dir():
        pytest.skip(f"conformance vectors not found at {GOLDEN}")
    return GOLDEN

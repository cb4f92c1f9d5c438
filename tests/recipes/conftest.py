"""The tools of the small whole run."""

from __future__ import annotations

import pytest

from ninefold.core.store import Run
from ninefold.recipes.kit import Kit
from tests.recipes.small import small


@pytest.fixture
def kit(whole: Run) -> Kit:
    """The tools of that run."""
    return Kit(recipe=small(), run=whole)

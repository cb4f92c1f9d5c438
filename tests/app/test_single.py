"""Stages on their own."""

from __future__ import annotations

import pytest

from ninefold.app.single import needed, stage_names


@pytest.mark.parametrize("name", stage_names())
def test_comparison_and_draft_are_needed_by_the_evaluation_alone(name: str) -> None:
    before = stage_names()[: stage_names().index(name)]
    spared = [stage for stage in before if not needed(stage, name)]
    assert spared == ([] if name == "evaluate" else [stage for stage in before if stage in ("compare", "draft")])

"""The tools of a run: what is left out where the machine cannot isolate, and families that do not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from ninefold.core.errors import SandboxUnavailable, UserError
from ninefold.core.store import Run
from ninefold.core.types import Domain
from ninefold.recipes.kit import Kit
from ninefold.recipes.run import check
from ninefold.recipes.whole import smoke, wide

Families = dict[Domain, dict[str, tuple[int, ...]]]


def kit_for(families: Families, tmp_path: Path) -> Kit:
    return Kit(recipe=smoke().model_copy(update={"families": families}), run=Run(path=tmp_path))


def test_where_nothing_isolates_only_coding_is_left_out(tmp_path: Path) -> None:
    kit = kit_for({"general": {"arithmetic": (0,)}, "coding": {"expression": (0,)}}, tmp_path)
    # As `runtime.check` answers on a machine without namespaces.
    kit.__dict__["_isolation"] = SandboxUnavailable("no namespaces here")
    assert kit.left_out == {"coding": "no namespaces here"}
    assert kit.domains == ("general",)
    assert kit.runtime is None, "what is left plays without a sandbox"
    assert kit.task("coding", "train", 0).family == "expression", "its tasks are still kept out of the corpus"


@pytest.mark.parametrize(
    ("families", "said"),
    [
        ({"general": {"assistant": (0,)}}, "assistant is a family of domain agents"),
        ({"general": {"arithmetic": (0, 9)}}, r"levels are 0 to 2, got \[0, 9\]"),
        ({"general": {"arithmetic": ()}}, "levels are 0 to 2"),
        ({"general": {"alchemy": (0,)}}, "no task family 'alchemy'"),
    ],
)
def test_families_that_do_not_fit_are_refused(families: Families, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        _ = kit_for(families, tmp_path).families


def test_pictures_are_shown_to_models_that_read_them(tmp_path: Path) -> None:
    recipe = smoke().model_copy(update={"families": {"general": {"picture": (0,)}}})
    with pytest.raises(UserError, match="preset=nano-vision"):
        check(recipe, Run(path=tmp_path))
    check(recipe.model_copy(update={"preset": "nano-vision"}), Run(path=tmp_path))
    check(wide(), Run(path=tmp_path))

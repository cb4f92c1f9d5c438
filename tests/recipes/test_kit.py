"""The tools of a run: what is left out where the machine cannot isolate, and families that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ninefold.agent import env
from ninefold.agent.harness.sampler import HarnessConfig, split_of_parts
from ninefold.core.errors import SandboxUnavailable, UserError
from ninefold.core.store import Run
from ninefold.core.types import Domain
from ninefold.recipes.kit import Kit
from ninefold.recipes.run import check
from ninefold.recipes.whole import smoke, wide
from ninefold.rollout.play import lineup

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
        ({"general": {"arithmetic": (0, 9)}}, r"levels are 0 to 2 \(got \[0, 9\]\)"),
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


@pytest.mark.parametrize(
    ("transfer", "said"),
    [
        ({"tally": (7,)}, r"evaluate.transfer.tally: takes .* levels are 0 to 1 \(got \[7\]\)"),
        ({"arithmetic": (1,)}, "evaluate.transfer.arithmetic: the run trains arithmetic"),
    ],
)
def test_kinds_that_are_only_measured_exist_and_are_not_trained(
    transfer: dict[str, tuple[int, ...]], said: str, tmp_path: Path
) -> None:
    recipe = smoke()
    evaluate = recipe.evaluate.model_copy(update={"transfer": transfer})
    with pytest.raises(UserError, match=said):
        check(recipe.model_copy(update={"evaluate": evaluate}), Run(path=tmp_path))


def test_a_run_plays_under_the_harnesses_that_it_names(tmp_path: Path) -> None:
    def drawn(**config: Any) -> set[str]:
        recipe = smoke().model_copy(update={"harness": HarnessConfig(**config)})
        sampler = Kit(recipe=recipe, run=Run(path=tmp_path)).recipe.harness.sampler()
        task = env.family("repair").generate("train", 0, 0)
        slots = lineup([(task, "max")] * 40)
        return {sampler(slot).name for slot in slots}

    assert drawn() == {"plain", "verbal", "service"}
    assert drawn(among=("pi/nano",)) == {"pi/nano"}
    composed = drawn(among=(), without=("hermes",))
    assert len(composed) > 20
    assert all(split_of_parts(parts_of(name)) == "train" for name in composed)
    assert {split_of_parts(parts_of(name)) for name in drawn(among=(), split="heldout")} == {"heldout"}


def parts_of(name: str) -> tuple[str, str, str, str]:
    tools, prompt, context, rules = (name.removesuffix("/nano").split("+") * 4)[:4]
    return tools, prompt, context, rules


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (HarnessConfig(among=("nobody",)), "no harness 'nobody'"),
        (HarnessConfig(among=(), without=("pi/nano",)), "harness.without names pi/nano; public harnesses are kimi_code"),
    ],
)
def test_harnesses_that_do_not_exist_are_refused_before_a_run(config: HarnessConfig, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        check(smoke().model_copy(update={"harness": config}), Run(path=tmp_path))

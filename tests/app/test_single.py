"""Stages on their own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ninefold.app.configuration import dotted, stored_recipe
from ninefold.app.single import chain, evaluate_beside, needed, reader_of, run_stage, stage_names
from ninefold.core.errors import UserError
from ninefold.core.store import Run
from ninefold.recipes.config import Recipe
from ninefold.recipes.whole import recipe


@pytest.mark.parametrize("name", stage_names(Recipe()))
def test_comparison_and_draft_are_needed_by_the_evaluation_alone(name: str) -> None:
    before = stage_names(Recipe())[: stage_names(Recipe()).index(name)]
    spared = [stage for stage in before if not needed(stage, name)]
    assert spared == ([] if name == "evaluate" else [stage for stage in before if stage in ("compare", "draft")])


def test_a_cell_goes_on_from_the_larger_efforts() -> None:
    assert chain(Recipe(), ("coding", "low")) == [("coding", "max"), ("coding", "high")]
    assert chain(Recipe(), ("coding", "max")) == []


@pytest.mark.parametrize("key", list(dotted(recipe("smoke").model_dump(mode="json"))))
def test_every_value_has_a_stage_that_reads_it_first(key: str) -> None:
    assert reader_of(Recipe(), key) in stage_names(Recipe())


@pytest.mark.parametrize(
    ("key", "stage"),
    [
        ("sft.files", "demonstrations"),
        ("sft.step_sizes.muon", "sft"),
        ("rl.steps", "rl"),
        ("engine.pool_mb", "budgets"),
        ("pool.epochs", "pooled"),
        ("families.general.arithmetic", "corpus"),
        ("seed", "corpus"),
    ],
)
def test_readers(key: str, stage: str) -> None:
    assert reader_of(Recipe(), key) == stage


def test_an_evaluation_beside_leaves_the_runs_own_alone(whole: Run, tmp_path: Path) -> None:
    run = Run(path=tmp_path / "copy")
    shutil.copytree(whole.path, run.path)
    before = {path: path.read_bytes() for path in (*run.stage("evaluate").iterdir(), run.events)}
    recipe = stored_recipe(run)
    other = recipe.model_copy(update={"evaluate": recipe.evaluate.model_copy(update={"tasks": 2, "seed": 5})})
    figures = evaluate_beside(other, run)
    table, families = figures.table, figures.families
    assert table["student"]["general/low"]["n"] == 2
    assert set(families) == set(table)
    assert {path: path.read_bytes() for path in before} == before


def test_a_redo_that_fails_leaves_the_earlier_result(whole: Run, tmp_path: Path) -> None:
    run = Run(path=tmp_path / "copy")
    shutil.copytree(whole.path, run.path)
    before = {path.name: path.read_bytes() for path in run.stage("evaluate").iterdir()}
    (run.stage("sft") / "model" / "model.safetensors").unlink()
    with pytest.raises(UserError, match="model"):
        run_stage(stored_recipe(run), run, "evaluate", redo=True)
    assert {path.name: path.read_bytes() for path in run.stage("evaluate").iterdir()} == before

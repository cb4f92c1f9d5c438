"""What becomes of a cell before and after its iterations."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from ninefold.core.store import Run, read_json, write_folder, write_json
from ninefold.core.types import DOMAINS, Cell
from ninefold.data.samples import write_samples
from ninefold.recipes.kit import Kit
from ninefold.recipes.rl import conclude, prepare, rewarm
from ninefold.recipes.training import STATE
from ninefold.recipes.whole import wide
from tests.recipes.small import small

CELL: Cell = ("general", "low")


@pytest.fixture
def own(whole: Run, tmp_path: Path) -> Kit:
    """A copy of the small run, to be changed."""
    run = Run(path=tmp_path / "run")
    shutil.copytree(whole.path, run.path)
    return Kit(recipe=small(), run=run)


def test_without_a_correct_sample_the_start_stays_as_it_is(own: Kit) -> None:
    write_samples(own.run.stage("budgets") / "general" / "low.npz", [])
    model, log = own.load("sft"), list[str]()

    def emit(kind: str, /, **_: Any) -> None:
        log.append(kind)

    rewarm(own, CELL, model, emit)
    before = own.load("sft").state_dict()
    assert log == ["note"]
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_a_cell_starts_from_the_best_of_all_starts(own: Kit, tmp_path: Path) -> None:
    """A re-warm can make a model worse: it is one start among others."""
    scores = dict[str, Any]()

    def emit(kind: str, /, **given: Any) -> None:
        if kind == "start":
            scores.update(given)

    prepare(own, CELL, tmp_path / "start", emit)
    chosen, shaped = scores.pop("chosen"), {name.removeprefix("dev_"): value for name, value in scores.items()}
    assert set(shaped) == {"sft", "previous", "sft_warm", "previous_warm"}
    assert shaped[chosen] == max(shaped.values())
    written = read_json(tmp_path / "start" / "start.json")
    assert written["sft"]["shaped"] == shaped["sft"]
    assert written["dev"]["shaped"] == shaped[chosen]


def test_every_family_of_a_domain_gets_as_many_prompts() -> None:
    recipe = wide()
    prompts = {domain: recipe.of_each(domain, recipe.rl.prompts) for domain in DOMAINS}
    assert prompts == {"general": 80, "agents": 32, "coding": 32}


def test_the_figures_told_are_those_of_the_weights_kept(own: Kit) -> None:
    """Of equally good weights the later ones are kept."""
    stage = own.run.stage("rl", *CELL)
    dev = [{"step": float(step), "shaped": shaped} for step, shaped in ((1, 0.5), (2, 0.5), (3, 0.4))]
    write_folder(stage / STATE, lambda folder: write_json(folder / "loop.json", {"trained": [], "dev": dev}))
    write_folder(stage / "best", lambda folder: own.save(own.load("sft"), folder))
    results = conclude(own, CELL, stage, {"chosen": "sft", "sft": {"shaped": 0.1}})
    assert results["dev"]["step"] == 2
    assert not results["fell_back"]

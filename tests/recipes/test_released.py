"""A run that starts from released weights: its own stages, its own chat format, two efforts; ninefold computes the model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ninefold.app.model import open_service
from ninefold.core.errors import UserError
from ninefold.core.store import Run, is_complete, read_json
from ninefold.model.llama import Llama
from ninefold.recipes.config import Recipe, ReleasedConfig
from ninefold.recipes.kit import Kit
from ninefold.recipes.origin import import_released
from ninefold.recipes.rl import Loop
from ninefold.recipes.run import run_recipe, stages_of
from ninefold.recipes.whole import smol
from tests.released import write_released


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("released")
    write_released(folder)
    return folder


def little(folder: Path) -> Recipe:
    """Every stage in a few steps: enough to learn that there is thinking at max effort, which budgets are measured by."""
    base, few = smol(), {"save_every": 1}
    step = {"step_sizes": base.rl.step_sizes.model_copy(update={"adamw": 1e-2})}
    return base.model_copy(
        update={
            "families": {"general": {"chain_sum": (0,)}},
            "released": ReleasedConfig(source=str(folder), products="float32"),
            "engine": base.engine.model_copy(update={"rows": 16, "prompts": 4}),
            "sft": base.sft.model_copy(update={"demonstrations": 300, "batch_tokens": (1500, 1500), **few, **step}),
            "budgets": base.budgets.model_copy(update={"tasks": 4}),
            "rl": base.rl.model_copy(
                update={
                    "steps": 3,
                    "prompts": 2,
                    "samples": 3,
                    "evaluate_every": 2,
                    "dev_tasks": 2,
                    "gate": 0.0,
                    "save_every": 2,
                }
            ),
            "pool": base.pool.model_copy(update={"rollouts": 3, "only_correct": False, **few}),
            "mopd": base.mopd.model_copy(update={"steps": 1, "rollouts": 4, **few}),
            "evaluate": base.evaluate.model_copy(update={"tasks": 3}),
        }
    )


@pytest.fixture(scope="module")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = Run(path=tmp_path_factory.mktemp("run") / "little")
    run_recipe(little(folder), run)
    return run


def test_every_stage_leaves_a_hugging_face_folder(run: Run, folder: Path) -> None:
    recipe = little(folder)
    names = [stage.name for stage in stages_of(recipe)]
    assert names[:3] == ["import", "demonstrations", "sft"]
    assert not {"corpus", "pretrain", "draft"} & set(names)
    assert all(is_complete(run.stage(name)) for name in names)
    assert set(read_json(run.stage("evaluate") / "table.json")["student"]) == {"general/low", "general/max"}
    kit = Kit(recipe=recipe, run=run)
    student, released = kit.load("mopd"), kit.start()
    assert isinstance(student, Llama)
    assert not torch.equal(student.model.norm.weight, released.get_parameter("model.norm.weight"))
    assert {path.name for path in (run.stage("mopd") / "model").iterdir()} == {path.name for path in folder.iterdir()}
    with pytest.raises(UserError, match="speaks ChatML"):
        open_service(run, "mopd")


def test_a_state_saved_now_and_then_is_gone_on_from(run: Run, folder: Path, tmp_path: Path) -> None:
    """A loop that is cut off in its third step, with a state of its second, ends where one ends that is not."""
    kit = Kit(recipe=little(folder), run=run)

    def loop(name: str) -> Loop:
        return Loop(kit, ("general", "max"), tmp_path / name, lambda kind, /, **fields: None)

    whole, cut = loop("whole"), loop("cut")
    whole.run()
    iterate = cut.iterate

    def cut_off() -> None:
        if cut.trainer.steps_done == 2:
            raise KeyboardInterrupt
        iterate()

    cut.iterate = cut_off
    with pytest.raises(KeyboardInterrupt):
        cut.run()
    again = loop("cut")
    again.run()
    assert again.trainer.steps_done == 3
    assert again.trained == whole.trained
    assert again.trainer.weights().checksum == whole.trainer.weights().checksum


@pytest.mark.parametrize("source", ["no/such/folder", "no such package"])
def test_a_source_that_is_none_is_refused(source: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="neither a folder nor the name of a package"):
        import_released(ReleasedConfig(source=source), tmp_path / "model")


def test_adapters_need_transformers() -> None:
    with pytest.raises(ValueError, match=r"needs released\.through"):
        ReleasedConfig(source="x", lora=4)


def test_budgets_need_the_largest_effort() -> None:
    with pytest.raises(ValueError, match="efforts lacks max"):
        Recipe(efforts=("low", "high"))

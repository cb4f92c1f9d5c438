"""Killed at any moment and started again, a run ends in the same weights and trained prompts, and leaves no process."""

from __future__ import annotations

import gc
import multiprocessing
from pathlib import Path

import pytest

from bench.kill import Death, await_moment, compare, finished, kill, moments, weights
from ninefold.core.store import Run
from ninefold.recipes.run import STAGES, run_recipe
from tests.recipes.small import small

FORK = multiprocessing.get_context("fork")


def torment(whole: Run, run: Run, kills: int, seed: int) -> list[Death]:
    """Run the small recipe in child processes, each killed at its moment, the last one left to finish."""
    # A process group that another test left as garbage would be taken apart in a fork, without its threads, and wait for them.
    gc.collect()
    deaths: list[Death] = []
    for moment in moments(whole, kills, seed):
        process = FORK.Process(target=run_recipe, args=(small(), run))
        process.start()
        assert process.pid is not None
        if await_moment(run, moment, process.is_alive):
            deaths.append(kill(run, process.pid, process.join))
        process.join()
    process = FORK.Process(target=run_recipe, args=(small(), run))
    process.start()
    process.join()
    assert process.exitcode == 0
    return deaths


def check(whole: Run, run: Run, kills: int, seed: int) -> None:
    deaths = torment(whole, run, kills, seed)
    assert finished(run)
    assert len(deaths) == kills
    assert sum(death.orphans for death in deaths) == 0
    difference = compare(whole, run)
    assert difference["differing_models"] == []
    assert difference["differing_cells"] == []
    assert difference["trained_twice"] == 0


def test_a_killed_run_ends_in_the_same_bits(whole: Run, tmp_path: Path) -> None:
    check(whole, Run(path=tmp_path / "killed"), kills=3, seed=0)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(1, 6))
def test_a_run_killed_often_ends_in_the_same_bits(whole: Run, tmp_path: Path, seed: int) -> None:
    check(whole, Run(path=tmp_path / "killed"), kills=10, seed=seed)


def test_the_comparison_sees_every_model(whole: Run) -> None:
    """What `compare` reads is there: the models of all stages that train, experts included."""
    stages = {Path(name).parts[1] for name in weights(whole)}
    assert stages >= {"pretrain", "sft", "rl", "pooled", "mopd", "mopd-full", "average", "draft"}
    assert {stage.name for stage in STAGES} >= {"pretrain", "sft", "rl", "pooled", "mopd", "draft"}

"""A run of schema 1 as its version left it: `tests/data/schema-1` is never remade, and stays readable whatever comes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ninefold.app.configuration import resolve, stored_recipe
from ninefold.app.journal import Figures, Journal
from ninefold.core.errors import UserError
from ninefold.core.records import task_of
from ninefold.core.store import Run, read_json
from ninefold.recipes.whole import recipe
from ninefold.rollout.store import find_trajectory, read_trajectories

from .test_commands import call, printed

FROZEN = Path(__file__).parents[1] / "data" / "schema-1"


@pytest.fixture
def old(here: Path) -> Run:
    shutil.copytree(FROZEN, here / "runs" / "old")
    return Run.open(here / "runs" / "old")


def test_configuration(old: Run) -> None:
    stored = stored_recipe(old)
    assert (stored.preset, stored.rl.prompts, stored.evaluate.tasks) == ("tiny", 2, 4)
    assert stored.sft.files == (), "a key that did not exist then has its default"
    assert resolve(recipe("nano"), old) == stored


def test_events(old: Run) -> None:
    journal = Journal.of(old)
    assert journal.stages[0] == "corpus"
    assert journal.fell_back == {"agents/low"}
    assert Figures.of(old, journal).table["student"]["coding/low"]["within"] == 0.67
    assert [event["loss"] for event in journal.all("step", "mopd")] == [5.0]


def test_trajectories_and_tasks(old: Run) -> None:
    passed, failed = read_trajectories(old.path / "trajectories")
    assert (passed.result.status, failed.result.status) == ("pass", "fail")
    assert find_trajectory(old.path / "trajectories", failed.id).result == failed.result
    (row,) = passed.rows
    assert set(row.versions[row.sampled_mask].tolist()) == {7}
    assert set(row.logprobs[row.sampled_mask].tolist()) == {-0.5}
    assert passed.turns[0].calls[0].tool == "run"
    assert task_of(read_json(old.path / "task.json")) == passed.task


def test_commands(old: Run) -> None:
    assert [entry["name"] for entry in printed("runs", "ls", "--json")] == ["old"]
    assert len(printed("show", "old", "trajectory", "--json")) == 2
    assert printed("show", "old", "trajectory", "evaluate/0/coding/low/0", "--json")["ids"]
    assert printed("set", "old", "--json")["tau_b.coding.low"] == 1.2
    assert printed("runs", "compare", "old", "old", "--json")["student"]["coding/low"] == [0.67, 0.67]
    call("report", "old")
    assert "agents/low" in old.report.read_text()
    assert "goes on from" in call("stage", "old", "rl", status=2).stderr


def test_a_newer_log_is_refused_by_name(old: Run) -> None:
    old.log()("run.start", schema=99, recipe={}, stages=[])
    with pytest.raises(UserError, match="schema 99"):
        Journal.of(old)
    assert "update" in call("report", "old", status=2).stderr

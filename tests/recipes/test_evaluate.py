"""Figures per cell and per family."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ninefold.core.errors import VerifierError
from ninefold.core.events import read_events
from ninefold.core.store import Run, read_json, write_json
from ninefold.core.types import Budget, Result, Row, Segment, Status, Task, Trajectory
from ninefold.recipes.budgets import rows_of, score
from ninefold.recipes.evaluate import PARTS, Evaluated, by_family, evaluate_cell, figures_of, outcomes_of
from ninefold.recipes.kit import Kit

TASK = Task(
    id="passage/heldout/0/1", domain="general", family="passage", split="heldout", level=0, seed=1, shape="passage/0",
    instruction="which?", budget=Budget(tokens=10.0, samples=4),
)  # fmt: skip


def attempt(family: str, status: Status, spend: int) -> Trajectory:
    return Trajectory(
        id="x", task=replace(TASK, family=family), effort="low", group="g", seed=0, rows=(), turns=(), composition={},
        stop="answered", result=Result(status=status, score=float(status == "pass")), spend=spend,
    )  # fmt: skip


def test_families_are_told_apart_and_invalid_attempts_count_nowhere() -> None:
    played = [
        attempt("passage", "pass", 4),
        attempt("search", "pass", 30),
        attempt("passage", "fail", 6),
        attempt("search", "invalid", 2),
        attempt("gym", "invalid", 2),
    ]
    families = by_family(played, tau=1.5)
    assert list(families) == ["passage", "search"]
    passage, search = families.values()
    assert (passage["pass"], passage["within"], passage["over"], passage["spend"], passage["n"]) == (0.5, 0.5, 0.0, 5.0, 2)
    assert passage["within_se"] == pytest.approx(0.5)
    assert (search["pass"], search["within"], search["over"], search["n"], search["invalid"]) == (1.0, 0.0, 1.0, 1, 1)
    assert "within_se" not in search, "one attempt says nothing of the spread"
    assert figures_of(played, 1.5)["within"] == pytest.approx(1 / 3)
    assert outcomes_of(played, 1.5)["within"] == [1.0, 0.0, 0.0, -1.0, -1.0]


def test_the_evaluation_of_a_run_holds_together(whole: Run, kit: Kit) -> None:
    stage = whole.stage("evaluate")
    table, families = read_json(stage / "table.json"), read_json(stage / "families.json")
    assert table.keys() >= {"sft", "experts", "pooled", "student", "average", "other"}
    for model, cells in table.items():
        assert {tuple(cell.split("/")) for cell in cells} == set(kit.cells)
        assert families[model] == {cell: {"arithmetic": figures} for cell, figures in cells.items()}
    (event,) = [event for _, event in read_events(whole.events) if event["kind"] == "table"]
    assert event["table"] == table
    assert event["families"] == families
    transfer = read_json(stage / "transfer.json")
    assert event["transfer"] == transfer
    assert transfer.keys() == {"tally"}
    assert transfer["tally"].keys() == {"sft", "pooled", "student", "average", "general expert"}
    for by_effort in transfer["tally"].values():
        assert by_effort.keys() == set(kit.recipe.efforts)
        assert all(f["n"] + f["invalid"] == kit.recipe.evaluate.tasks for f in by_effort.values())
    experts = {"/".join(c): read_json(whole.stage("rl", *c) / "results.json")["fell_back"] for c in kit.cells}
    assert event["fell_back"] == [cell for cell, fell in experts.items() if fell]
    assert event["fell_back"] == read_json(whole.stage("rl") / "results.json")["fell_back"]


def test_a_cell_that_nobody_could_judge_has_no_score() -> None:
    with pytest.raises(VerifierError, match="none of 2 attempts"):
        score([attempt("gym", "invalid", 2)] * 2, 1.0)


def test_rows_of_invalid_attempts_are_left_out() -> None:
    row = Row(segments=(Segment(ids=np.zeros(3, np.int32), source="rendered", message=0),))
    attempts = [replace(attempt("gym", status, 2), rows=(row,)) for status in ("pass", "invalid", "fail")]
    assert len(rows_of(attempts)) == 2


def test_what_was_evaluated_before_a_cut_is_not_played_again(kit: Kit) -> None:
    cell = kit.cells[0]
    first = evaluate_cell(kit, "sft", cell, "evaluate-cut")
    (part,) = (kit.run.stage("evaluate-cut") / PARTS).iterdir()
    assert Evaluated(**read_json(part)) == first
    write_json(part, {**read_json(part), "figures": {"pass": 0.25}})
    assert evaluate_cell(kit, "sft", cell, "evaluate-cut").figures == {"pass": 0.25}, "it is read, not played"
    assert not (kit.run.stage("evaluate") / PARTS).exists(), "a whole evaluation leaves none"

"""Spend, budgets, multipliers, and the order of rewards."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninefold.agent.effort.budget import budget_of, estimate_budgets, over_budget, spend
from ninefold.agent.effort.multipliers import Multipliers, calibrate
from ninefold.agent.reward.shape import budgeted_reward, outcome_filter, reward_group
from ninefold.core.errors import UserError
from ninefold.core.types import Budget, Effort, Group, Result, Status, Task, Trajectory

TASK = Task(id="t", domain="general", family="f", split="train", level=0, seed=0, shape="f/1", instruction="")


def trajectory(
    spent: int,
    status: Status = "pass",
    *,
    score: float | None = None,
    shape: str = "f/1",
    effort: Effort = "max",
    b0: float | None = None,
) -> Trajectory:
    budget = None if b0 is None else Budget(tokens=b0, samples=1)
    fields = {name: getattr(TASK, name) for name in Task.__slots__} | {"shape": shape, "budget": budget}
    return Trajectory(
        id="t",
        task=Task(**fields),
        effort=effort,
        group="g",
        seed=0,
        rows=(),
        turns=(),
        composition={},
        stop="answered",
        result=Result(status=status, score=(1.0 if status == "pass" else 0.0) if score is None else score),
        spend=spent,
    )


def group(*trajectories: Trajectory) -> Group:
    return Group(id="g", task=trajectories[0].task, effort=trajectories[0].effort, trajectories=trajectories)


def test_override_golden(golden: Path) -> None:
    cases = json.loads((golden / "rl" / "budget.json").read_text())["effort_budget"]
    assert cases
    for case in cases:
        budget = Budget(tokens=case["b0"], samples=1)
        reward, over = budgeted_reward(case["task_reward"], spend=case["T"], multiplier=case["tau"], budget=budget)
        assert reward == case["reward"], case
        assert over == over_budget(case["T"], multiplier=case["tau"], budget=budget)


def test_spend_counts_thinking_on_general_tasks_only() -> None:
    assert spend("general", think_tokens=3, new_tokens=10) == 3
    assert spend("agents", think_tokens=3, new_tokens=10) == spend("coding", think_tokens=3, new_tokens=10) == 10


def test_budget_is_the_mean_of_correct_samples_else_of_all() -> None:
    measured = [
        trajectory(10),
        trajectory(20),
        trajectory(90, "fail"),
        trajectory(500, "invalid"),
        trajectory(4, "fail", shape="f/2"),
        trajectory(8, "fail", shape="f/2"),
        trajectory(7, "invalid", shape="f/3"),
    ]
    budgets = estimate_budgets(measured)
    first, second, family = Budget(tokens=15.0, samples=2), Budget(tokens=6.0, samples=2), Budget(tokens=15.0, samples=2)
    assert budgets == {"f": family, "f/1": first, "f/2": second}
    assert budget_of(replace(TASK, shape="f/2"), budgets) == second
    assert budget_of(replace(TASK, shape="f/9"), budgets) == family, "a shape that was not met costs what its family does"
    assert budget_of(replace(TASK, family="g", shape="g/1"), budgets) is None


@given(st.lists(st.integers(1, 60), min_size=1, max_size=80), st.floats(0.5, 0.99))
def test_calibrated_multiplier_is_exceeded_about_as_often_as_asked(spends: list[int], quantile: float) -> None:
    budgets = {"f/1": Budget(tokens=20.0, samples=1)}
    multiplier = calibrate([trajectory(s) for s in spends], budgets, quantile=quantile)
    above = [over_budget(s, multiplier=multiplier, budget=budgets["f/1"]) for s in spends]
    share = sum(above) / len(above)
    others = [sum(s > m for s in spends) / len(spends) for m in set(spends)]
    assert not all(above)
    assert abs(share - (1 - quantile)) <= min(abs(o - (1 - quantile)) for o in others) + 1e-9


def test_calibration_without_data_says_what_to_do() -> None:
    with pytest.raises(UserError, match="evaluate the SFT model"):
        calibrate([trajectory(3, "invalid")], {"f/1": Budget(tokens=1.0, samples=1)})


def test_a_task_is_calibrated_on_the_budget_that_it_is_held_to() -> None:
    strange = trajectory(3, shape="f/unmet")
    assert calibrate([strange], {strange.task.family: Budget(tokens=2.0, samples=1)}) == 1.5


def test_multipliers_change_while_running() -> None:
    start = Multipliers(values={("coding", "low"): 0.5})
    changed = start.changed({"tau_b.coding.low": 0.6, "lr": 3})
    assert changed.of(("coding", "low")) == 0.6
    assert changed.of(("general", "max")) is None
    with pytest.raises(UserError, match=r"tau_b\.coding\.medium"):
        start.changed({"tau_b.coding.medium": 1.0})
    with pytest.raises(UserError, match="positive"):
        start.changed({"tau_b.coding.low": -1})


def test_over_budget_correct_scores_below_in_budget_wrong() -> None:
    cohort = reward_group(group(trajectory(100, b0=10.0), trajectory(5, "fail", b0=10.0)), multiplier=1.0)
    assert [(m.outcome, m.reward, m.over) for m in cohort.members] == [(1.0, -1.0, True), (0.0, 0.0, False)]
    free = reward_group(cohort.group)
    assert [m.reward for m in free.members] == [1.0, 0.0]


def test_invalid_members_are_left_out_and_counted() -> None:
    cohort = reward_group(group(trajectory(1), trajectory(1, "invalid"), trajectory(1, "fail")), multiplier=1.0)
    assert [m.reward for m in cohort.members] == [1.0, 0.0]
    assert cohort.invalid == 1


def test_filter_drops_only_what_teaches_nothing() -> None:
    all_wrong = reward_group(group(trajectory(1, "fail"), trajectory(1, "fail")))
    all_right = reward_group(group(trajectory(1), trajectory(2)))
    wrong_and_long = reward_group(group(trajectory(1, "fail", b0=1.0), trajectory(9, "fail", b0=1.0)), multiplier=1.0)
    right_and_all_over = reward_group(group(trajectory(9, b0=1.0), trajectory(9, "fail", b0=1.0)), multiplier=1.0)
    one = reward_group(group(trajectory(1), trajectory(1, "invalid")))
    assert outcome_filter([all_wrong, all_right, wrong_and_long, right_and_all_over, one]) == [
        wrong_and_long,
        right_and_all_over,
    ]

"""Spend T(y) and budgets b₀(x) (report, reasoning effort; the statistic is ours, spec 03)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from ninefold.core.types import Budget, Domain, Task, Trajectory


def spend(domain: Domain, *, think_tokens: int, new_tokens: int) -> int:
    """T(y) in tokens: thinking on general tasks, everything generated on agentic ones."""
    return think_tokens if domain == "general" else new_tokens


def estimate_budgets(trajectories: Iterable[Trajectory]) -> dict[str, Budget]:
    """Task shape → b₀: mean spend of its correct samples, of all its samples where none is correct.

    Families have one over all their shapes too, for shapes that were not met (`budget_of`). The trajectories are the
    cold-start model's at max effort; invalid ones tell nothing and are left out.
    """
    by_shape: defaultdict[str, list[Trajectory]] = defaultdict(list)
    for trajectory in trajectories:
        assert trajectory.effort == "max", "b₀ is measured at max effort"
        if trajectory.valid:
            for key in {trajectory.task.shape, trajectory.task.family}:
                by_shape[key].append(trajectory)
    return {shape: _budget(members) for shape, members in sorted(by_shape.items())}


def budget_of(task: Task, budgets: Mapping[str, Budget]) -> Budget | None:
    """b₀ of the task's shape, or of its family where that shape was not met."""
    return budgets.get(task.shape, budgets.get(task.family))


def over_budget(spent: float, *, multiplier: float, budget: Budget) -> bool:
    """T(y) > τ_b · b₀(x), strictly."""
    return spent > multiplier * budget.tokens


def _budget(members: list[Trajectory]) -> Budget:
    counted = [t for t in members if t.passed] or members
    return Budget(tokens=sum(t.spend for t in counted) / len(counted), samples=len(counted))

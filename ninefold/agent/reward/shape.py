"""Order of rewards: task reward → budget override → (in the loss) group mean; then filters, on the outcome.

With an override to −1 a group where nothing passed need not be constant: {0, −1} is signal about length, and is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ninefold.agent.effort.budget import over_budget
from ninefold.core.types import Budget, Group, Trajectory

OVERRIDE = -1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewarded:
    """A valid trajectory and its reward."""

    trajectory: Trajectory
    outcome: float
    """What the verifier gave, in [0, 1]."""
    reward: float
    """The outcome, or −1 where the budget was overspent."""
    over: bool
    """Whether it spent more than τ_b · b₀."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """One prompt's valid trajectories: what trains, and what was left out of it."""

    group: Group
    members: tuple[Rewarded, ...]
    invalid: int
    """Trajectories left out because nobody could judge them."""

    @property
    def informative(self) -> bool:
        """False only where outcome and reward are both constant: no advantage could come of it."""
        return _varies([m.outcome for m in self.members]) or _varies([m.reward for m in self.members])


def budgeted_reward(outcome: float, *, spend: float, multiplier: float, budget: Budget) -> tuple[float, bool]:
    """(reward, over): −1 iff T > τ_b · b₀, whatever was earned."""
    over = over_budget(spend, multiplier=multiplier, budget=budget)
    return (OVERRIDE if over else outcome), over


def reward_group(group: Group, *, multiplier: float | None = None) -> Cohort:
    """The group's valid trajectories with their rewards under τ_b = `multiplier`.

    Without a multiplier, or for a task without budget, nothing is overridden.
    """
    members: list[Rewarded] = []
    for trajectory in group.trajectories:
        if not trajectory.valid:
            continue
        outcome, budget = trajectory.result.score, trajectory.task.budget
        reward, over = outcome, False
        if multiplier is not None and budget is not None:
            reward, over = budgeted_reward(outcome, spend=trajectory.spend, multiplier=multiplier, budget=budget)
        members.append(Rewarded(trajectory=trajectory, outcome=outcome, reward=reward, over=over))
    return Cohort(group=group, members=tuple(members), invalid=len(group.trajectories) - len(members))


def outcome_filter(cohorts: Sequence[Cohort]) -> list[Cohort]:
    """The cohorts that can teach something; off by default, since dropping none is the published algorithm."""
    return [cohort for cohort in cohorts if cohort.informative]


def _varies(values: Sequence[float]) -> bool:
    return len(values) > 1 and max(values) - min(values) > 1e-9

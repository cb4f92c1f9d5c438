"""What a rollout shows, each figure under the name of the cohort that it was taken over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from ninefold.agent.reward.shape import Cohort
from ninefold.core.types import Trajectory


def cohort_metrics(cohorts: Sequence[Cohort], trained: Sequence[Cohort]) -> dict[str, float]:
    """`all/…` over every trajectory that came in, `valid/…` over those that could be judged, `trained/…` over `trained`.

    Means are over trajectories, never over turns or tokens. A figure of an empty cohort is left out.
    """
    everyone = [trajectory for cohort in cohorts for trajectory in cohort.group.trajectories]
    metrics: dict[str, float] = {"all/trajectories": len(everyone), "all/groups": len(cohorts)}
    if everyone:
        metrics["all/invalid"] = fmean(t.result.status == "invalid" for t in everyone)
        metrics["all/resumed"] = fmean(t.resumes > 0 for t in everyone)
        metrics["all/versions"] = fmean(_versions(t) for t in everyone)
        stops = Counter(t.stop for t in everyone)
        metrics |= {f"all/stop_{stop}": count / len(everyone) for stop, count in sorted(stops.items())}
    return metrics | _rewards("valid", cohorts) | _rewards("trained", trained)


def _rewards(name: str, cohorts: Sequence[Cohort]) -> dict[str, float]:
    members = [member for cohort in cohorts for member in cohort.members]
    if not members:
        return {f"{name}/trajectories": 0}
    return {
        f"{name}/trajectories": len(members),
        f"{name}/informative_groups": fmean(cohort.informative for cohort in cohorts),
        f"{name}/pass": fmean(m.trajectory.result.status == "pass" for m in members),
        f"{name}/pass_within_budget": fmean(m.trajectory.result.status == "pass" and not m.over for m in members),
        f"{name}/outcome": fmean(m.outcome for m in members),
        f"{name}/reward": fmean(m.reward for m in members),
        f"{name}/over_budget": fmean(m.over for m in members),
        f"{name}/spend": fmean(m.trajectory.spend for m in members),
        f"{name}/new_tokens": fmean(m.trajectory.new_tokens for m in members),
        f"{name}/turns": fmean(len(m.trajectory.turns) for m in members),
    }


def _versions(trajectory: Trajectory) -> int:
    """Policy versions that wrote it."""
    return len({s.policy_version for row in trajectory.rows for s in row.segments if s.policy_version is not None})

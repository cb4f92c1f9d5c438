"""τ_b: how many times b₀ a trajectory may spend, by domain and effort; measured, then changeable while a job runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ninefold.agent.effort.budget import budget_of
from ninefold.core.errors import UserError
from ninefold.core.types import CELLS, Budget, Cell, Trajectory

LARGEST = 1_000_000
"""No budget is that many times b₀; infinity is no JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Multipliers:
    """τ_b of each cell that has one; a cell without is not budgeted."""

    values: Mapping[Cell, float] = field(default_factory=dict[Cell, float])

    def of(self, cell: Cell) -> float | None:
        return self.values.get(cell)

    def changed(self, controls: Mapping[str, Any]) -> Multipliers:
        """With the values of `controls` (`tau_b.<domain>.<effort>` → number) on top; other keys are not ours.

        Raises UserError for a cell that does not exist or a value that is no positive number.
        """
        values = dict(self.values)
        for key, value in controls.items():
            if not key.startswith("tau_b."):
                continue
            cell = next((cell for cell in CELLS if key == "tau_b." + ".".join(cell)), None)
            if cell is None:
                raise UserError(f"no cell of that name: {key}; e.g. tau_b.coding.low")
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < LARGEST:
                raise UserError(f"{key} must be a positive number below {LARGEST:,}, got {value!r}")
            values[cell] = float(value)
        return Multipliers(values=values)


def calibrate(trajectories: Iterable[Trajectory], budgets: Mapping[str, Budget], *, quantile: float = 0.85) -> float:
    """τ_b such that about 1 − `quantile` of `trajectories` (one cell's, of the cold-start model) spend more than τ_b · b₀.

    It is one of the spends met, in units of b₀: the one whose share above is nearest to 1 − `quantile`, so that ties never
    put a whole cell over its budget. Invalid trajectories and tasks without budget are left out.
    """
    budgeted = [(t, budget_of(t.task, budgets)) for t in trajectories if t.valid]
    ratios = [t.spend / budget.tokens for t, budget in budgeted if budget is not None and budget.tokens > 0]
    if not ratios:
        raise UserError("no valid trajectory with a budget to measure τ_b on: evaluate the SFT model on this cell first")
    ordered = np.sort(np.asarray(ratios, np.float64))
    candidates = np.unique(ordered)
    above = 1.0 - np.searchsorted(ordered, candidates, side="right") / len(ordered)
    return float(candidates[np.argmin(np.abs(above - (1.0 - quantile)))])

"""Advantages within a prompt's group of K samples (no torch here: they are computed where groups are made)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from ninefold.core.errors import UserError
from ninefold.core.types import FloatArray

_EQUAL = 1e-6
"""Rewards of a group whose range is no wider than this are one reward."""


def advantages(rewards: Sequence[float], groups: Sequence[Hashable]) -> FloatArray:
    """[n] r − r̄, r̄ the mean reward of the sample's group; no division by the standard deviation.

    Exactly 0 in a group whose rewards are all equal, and in a group of one. Raises UserError on a non-finite reward.
    Source: report, policy objective (K2.5).
    """
    reward_n = _finite(rewards)
    advantage_n = np.zeros(len(reward_n), np.float64)
    for member_n in _members(groups, len(reward_n)):
        inside = reward_n[member_n]
        if np.ptp(inside) > _EQUAL:
            advantage_n[member_n] = inside - inside.mean()
    return advantage_n.astype(np.float32)


def _finite(values: Sequence[float]) -> NDArray[np.float64]:
    value_n = np.asarray(values, np.float64)
    if not np.isfinite(value_n).all():
        worst = int(np.flatnonzero(~np.isfinite(value_n))[0])
        raise UserError(f"reward {worst} is {value_n[worst]}: mark samples that cannot be judged as invalid and leave them out")
    return value_n


def _members(groups: Sequence[Hashable], n: int) -> list[NDArray[np.int64]]:
    assert len(groups) == n
    places: dict[Hashable, list[int]] = {}
    for place, group in enumerate(groups):
        places.setdefault(group, []).append(place)
    return [np.asarray(member) for member in places.values()]

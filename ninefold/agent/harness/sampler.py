"""Which harness a task group runs under: drawn by seed, the same for all K samples of the group."""

from __future__ import annotations

from collections.abc import Sequence

from ninefold.agent.harness.compose import Composed
from ninefold.agent.harness.presets import PRESETS
from ninefold.core.errors import UserError
from ninefold.core.seeds import rng_of


def sample(group: str, seed: int, among: Sequence[Composed] = PRESETS) -> Composed:
    """The harness of a group; equal arguments give equal harnesses."""
    if not among:
        raise UserError("no harness composition to choose from: give at least one")
    return rng_of("harness", seed, group).choice(among)

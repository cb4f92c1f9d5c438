"""Which harness a task group runs under: drawn by seed, the same for all K samples of the group."""

from __future__ import annotations

from collections.abc import Sequence

from ninefold.agent.harness.compose import Composed
from ninefold.agent.harness.presets import PRESETS, mixtures
from ninefold.core.errors import UserError
from ninefold.core.seeds import rng_of, split_of
from ninefold.core.types import Split


def choices(split: Split, *, mixed: bool = False) -> tuple[Composed, ...]:
    """Compositions of a split: the presets (with `mixed` mixtures of them too) to train under, mixtures set aside otherwise."""
    own = tuple(harness for harness in mixtures() if split_of(harness.name) == split)
    if split == "train":
        return PRESETS + own if mixed else PRESETS
    return own


def sample(group: str, seed: int, among: Sequence[Composed] = PRESETS) -> Composed:
    """The harness of a group; equal arguments give equal harnesses."""
    if not among:
        raise UserError("no harness composition to choose from: give at least one")
    return rng_of("harness", seed, group).choice(among)

"""Demonstrations of the stated efforts by scripted policies, as supervised samples."""

from __future__ import annotations

from ninefold.core.protocols import ScriptedPolicy, Style
from ninefold.core.seeds import rng_of, seed_of
from ninefold.core.types import EFFORTS, Domain, Effort, Sample, Slot, Split, Task
from ninefold.recipes.budgets import rows_of
from ninefold.recipes.kit import Kit
from ninefold.rollout.demonstrate import demonstrate
from ninefold.rollout.play import lineup


def demonstrations(kit: Kit, domain: Domain, split: Split, first: int, count: int) -> list[Sample]:
    """Demonstrations `first` … `first + count − 1` of a domain's stream; a demonstrator's style follows the stated effort
    most of the time (`sft.styles`), and it slips at times, so that RL has something to mend."""
    config, seed, efforts = kit.recipe.sft, kit.recipe.seed, kit.recipe.efforts

    def policy(slot: Slot) -> ScriptedPolicy:
        rng = rng_of("style", slot.seed)
        style = Style(effort=rng.choices(EFFORTS, config.styles[slot.effort])[0], seed=slot.seed, slip=config.slip)
        return kit.families[slot.task.family].demonstrate(slot.task, style)

    numbers = range(first, first + count)
    prompts: list[tuple[Task, Effort]] = [
        (kit.task(domain, split, n, "demonstrate"), efforts[n // 3 % len(efforts)]) for n in numbers
    ]
    slots = lineup(prompts, seed=seed_of(seed, "demonstrate", domain, split, first), name=f"demo/{domain}/{first}/")
    return rows_of(demonstrate(slots, policy, kit.scene))

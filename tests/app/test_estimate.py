"""The estimate of a run's cost counts what the recipe asks for."""

from __future__ import annotations

import pytest

from ninefold.app.estimate import ORDER, Speed, work_of
from ninefold.recipes.whole import nano, smoke, wide

ONE = Speed(trained=1e-4, step=1e-2, sampled=1e-5)


def test_every_stage_that_trains_or_samples_has_work() -> None:
    work = work_of(smoke())
    assert tuple(work) == ORDER
    assert all(ONE.seconds(part) > 0 for part in work.values())


def test_every_family_is_counted() -> None:
    recipe = wide()
    families = sum(len(levels) for levels in recipe.families.values())
    assert work_of(recipe)["budgets"].played == 3 * families * recipe.budgets.tasks
    assert work_of(recipe)["pool"].played == 3 * families * recipe.pool.rollouts


@pytest.mark.parametrize(
    ("stage", "key", "change"),
    [("sft", "sft", {"batch_tokens": (1000, 500)}), ("draft", "draft", {"unroll": 9}), ("mopd", "mopd", {"compare": True})],
)
def test_what_makes_a_stage_dearer_makes_it_dearer_here(stage: str, key: str, change: dict[str, object]) -> None:
    """Smaller batches mean more steps, each with its update; positions unrolled and a second form are passes of their own."""
    recipe = nano()
    dearer = recipe.model_copy(update={key: getattr(recipe, key).model_copy(update=change)})
    assert ONE.seconds(work_of(dearer)[stage]) > 1.1 * ONE.seconds(work_of(recipe)[stage])

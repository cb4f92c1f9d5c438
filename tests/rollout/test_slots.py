"""Invariants of the slots' accounting, over random orders of completion."""

from __future__ import annotations

import json
from collections import Counter
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ninefold.core.errors import UserError
from ninefold.rollout.slots import Place, Slots, SlotsConfig

CONFIGS = st.builds(
    SlotsConfig,
    prompts=st.integers(1, 5),
    samples=st.integers(1, 5),
    lam=st.sampled_from([0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0]),
)


@given(config=CONFIGS, data=st.data(), iterations=st.integers(1, 6), reload=st.booleans())
def test_invariants(config: SlotsConfig, data: st.DataObject, iterations: int, reload: bool) -> None:
    slots, names = Slots(config), count()
    begun: list[Place] = []
    finished: set[Place] = set()
    dispatched: list[str] = []
    for _ in range(iterations):
        expected = list(slots.paused)
        resumed, started = slots.fill(lambda: f"g{next(names)}")
        assert resumed == expected, "paused ones resume, all of them, before anything is started"
        assert len(resumed) + len(started) == config.active == len(slots.active)
        assert list(slots.active)[: len(resumed)] == resumed
        begun += started
        completed, due = 0, False
        while not due:
            assert slots.active, "an iteration always comes to an end"
            place = data.draw(st.sampled_from(sorted(slots.active)))
            slots.finish(place)
            finished.add(place)
            completed += 1
            whole = [name for name in _open(begun, dispatched) if _complete(name, config, finished)]
            due = completed >= config.quota and bool(whole)
            assert slots.due == due
        paused = slots.pause()
        assert set(paused) == set(begun) - finished, "nothing is lost"
        ready = slots.dispatch()
        assert ready
        for name in ready:
            assert _complete(name, config, finished), "nothing goes out before its K are in"
        dispatched += ready
        assert not any(_complete(name, config, finished) for name in slots.groups), "nor stays after"
        if reload:
            slots = Slots.of(json.loads(json.dumps(slots.record())), config)
    assert len(set(begun)) == len(begun), "nothing is begun twice"
    assert max(Counter(dispatched).values()) == 1, "nothing is dispatched twice"
    opened = [name for name, index in begun if index == 0]
    assert opened == [f"g{n}" for n in range(len(opened))], "prompts are taken in order, none is skipped"


def _open(begun: list[Place], dispatched: list[str]) -> set[str]:
    return {name for name, _ in begun} - set(dispatched)


def _complete(name: str, config: SlotsConfig, finished: set[Place]) -> bool:
    return all((name, index) in finished for index in range(config.samples))


@given(config=CONFIGS)
def test_a_slow_sample_stays_active_until_it_is_done(config: SlotsConfig) -> None:
    """No starvation: what is slow is never put back; it holds one slot and everything else goes on."""
    if config.prompts == 1:
        return
    slots, names = Slots(config), count()
    slots.fill(lambda: f"g{next(names)}")
    slow: Place = ("g0", 0)
    for _ in range(5):
        while not slots.due:
            slots.finish(next((place for place in slots.active if place != slow), slow))
        slots.pause()
        slots.dispatch()
        if slow not in slots.paused:
            break
        resumed, _ = slots.fill(lambda: f"g{next(names)}")
        assert slow in resumed
        assert slow in slots.active


def test_full_lambda_is_synchronous() -> None:
    slots, names = Slots(SlotsConfig(prompts=3, samples=2, lam=1.0)), count()
    for iteration in range(3):
        resumed, started = slots.fill(lambda: f"g{next(names)}")
        assert not resumed
        for place in started:
            assert not slots.due
            slots.finish(place)
        assert slots.pause() == []
        assert slots.dispatch() == [f"g{3 * iteration + n}" for n in range(3)]


def test_quota_takes_lambda_as_written() -> None:
    assert SlotsConfig(prompts=10, samples=10, lam=0.07).quota == 7
    assert SlotsConfig(prompts=32, samples=8, lam=0.7).quota == 180
    assert SlotsConfig(prompts=1, samples=3, lam=0.01).quota == 1


@pytest.mark.parametrize("values", [{"lam": 0}, {"lam": 1.5}, {"prompts": 0}, {"samples": 0}])
def test_configuration_is_checked(values: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match=next(iter(values))):
        SlotsConfig.model_validate(values)


def test_shrinking_below_the_work_begun_is_refused() -> None:
    slots, names = Slots(SlotsConfig(prompts=4, samples=4, lam=0.25)), count()
    slots.fill(lambda: f"g{next(names)}")
    for index in range(4):
        slots.finish(("g0", index))
    slots.pause()
    slots.dispatch()
    with pytest.raises(UserError, match="smaller"):
        Slots.of(slots.record(), SlotsConfig(prompts=2, samples=4))

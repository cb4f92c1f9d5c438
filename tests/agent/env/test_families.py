"""What every family promises, whichever it is."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ninefold.agent.env import families, family
from ninefold.agent.env.check import PROMISES, Case
from ninefold.core.protocols import Family, SandboxRuntime
from ninefold.core.types import Call

from .conftest import LONG

CASES = [
    pytest.param((name, level), id=f"{name}-{level}", marks=[pytest.mark.full] if level in LONG.get(name, ()) else [])
    for name, member in families().items()
    for level in range(member.levels)
]


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[Family, int, SandboxRuntime | None]:
    """(family, level, runtime if it needs one)"""
    name, level = request.param
    member = family(name)
    return member, level, request.getfixturevalue("isolated") if member.isolated else None


@pytest.mark.parametrize("promise", PROMISES)
def test_promise(case: tuple[Family, int, SandboxRuntime | None], promise: str) -> None:
    member, level, runtime = case
    assert list(PROMISES[promise](Case(family=member, level=level, runtime=runtime))) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize("name", families())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_worlds_answer_whatever_they_are_sent(name, request, data):
    member = family(name)
    runtime = request.getfixturevalue("isolated") if member.isolated else None
    task = member.generate("train", data.draw(st.integers(0, member.levels - 1)), 0)
    known = {tool.name: tool.parameters for tool in member.tools} or {"none": {}}
    world = member.open(task, seed=0, runtime=runtime)
    try:
        for _ in range(3):
            tool = data.draw(st.sampled_from(sorted(known)) | st.text(max_size=8))
            arguments = data.draw(
                st.fixed_dictionaries(dict.fromkeys(known.get(tool, {}), JSON)) | st.dictionaries(st.text(), JSON)
            )
            error = data.draw(st.none() | st.text(max_size=20))
            observation = world.call(Call(tool=tool, arguments=arguments, error=error))
            assert isinstance(observation.text, str)
            assert len(observation.text) < 100_000
        final = json.loads(json.dumps(world.final(data.draw(st.none() | st.text()))))
        assert member.verify(task, final, runtime=runtime).score == 0.0
    finally:
        world.close()


@pytest.mark.full
@pytest.mark.parametrize("promise", ["gold passes", "nothing fails", "hacks fail"])
def test_promise_over_many_seeds(case: tuple[Family, int, SandboxRuntime | None], promise: str) -> None:
    member, level, runtime = case
    assert list(PROMISES[promise](Case(family=member, level=level, runtime=runtime, seeds=60))) == []

"""What every family promises, whichever it is."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ninefold.agent.env import families, family
from ninefold.agent.env.play import play
from ninefold.agent.env.verify import FreshVerifier
from ninefold.core.protocols import Family, Move, Observation, SandboxRuntime, ScriptedPolicy, Style
from ninefold.core.records import task_of, task_record
from ninefold.core.types import EFFORTS, SPLITS, Call, Task

CASES = [(name, level) for name, member in families().items() for level in range(member.levels)]
SEEDS = range(4)


@pytest.fixture(params=CASES, ids=[f"{name}-{level}" for name, level in CASES])
def case(request: pytest.FixtureRequest) -> tuple[Family, int, SandboxRuntime | None]:
    """(family, level, runtime if it needs one)"""
    name, level = request.param
    member = family(name)
    return member, level, request.getfixturevalue("isolated") if member.isolated else None


class Fixed:
    """Plays the moves it is given."""

    def __init__(self, *moves: Move) -> None:
        self._moves = list(moves)

    def move(self, observations: list[Observation]) -> Move:
        return self._moves.pop(0)


def test_gold_gets_full_marks(case):
    member, level, runtime = case
    for split in SPLITS:
        for seed in SEEDS:
            task = member.generate(split, level, seed)
            result, final = play(member, task, member.gold(task), seed, runtime)
            assert (result.status, result.score) == ("pass", 1.0), (task, final, result)


@pytest.mark.parametrize("response", [None, "", " \n"])
def test_null_agent_gets_nothing(case, response):
    member, level, runtime = case
    for seed in SEEDS:
        task = member.generate("train", level, seed)
        result, _ = play(member, task, Fixed(Move(response=response)), seed, runtime)
        assert result.status != "pass"
        assert result.score == 0.0


def test_hacks_get_nothing(case):
    member, level, runtime = case
    for seed in SEEDS:
        task = member.generate("heldout", level, seed)
        hacks = member.hacks(task)
        assert len(hacks) >= 3
        for name, policy in hacks.items():
            result, final = play(member, task, policy, seed, runtime)
            assert result.status in ("fail", "invalid"), (name, task, final)
            assert result.score == 0.0, name


def test_five_runs_are_one(case):
    member, level, runtime = case
    for effort in EFFORTS:
        task = member.generate("dev", level, 3)
        style = Style(effort=effort, seed=5, slip=0.5)
        runs = [play(member, task, member.demonstrate(task, style), 7, runtime) for _ in range(5)]
        assert runs == runs[:1] * 5


def test_restored_world_goes_on_as_if_nothing_had_happened(case):
    member, level, runtime = case
    for seed in SEEDS:
        task = member.generate("train", level, seed)
        style = Style(effort="max", seed=seed)
        through = _transcript(member, task, member.demonstrate(task, style), runtime, restored=False)
        assert _transcript(member, task, member.demonstrate(task, style), runtime, restored=True) == through


def _transcript(member: Family, task: Task, policy: ScriptedPolicy, runtime: SandboxRuntime | None, *, restored: bool):
    """Every move, every observation, and the final state; with `restored` each call meets a world made from a save."""
    world = member.open(task, seed=11, runtime=runtime)
    observations: list[Observation] = []
    seen: list[object] = []
    for _ in range(task.limits.turns):
        move = policy.move(observations)
        seen.append(move)
        if not move.calls:
            break
        observations = []
        for call in move.calls:
            if restored:
                saved = world.save()
                world.close()
                world = member.restore(task, saved, runtime=runtime)
            observations.append(world.call(call))
        seen += observations
    seen.append(world.final(move.response))
    world.close()
    return seen


def test_splits_share_no_content_and_seeds_fix_tasks(case):
    member, level, _ = case
    owner: dict[str, str] = {}
    for split in SPLITS:
        for seed in range(20):
            task = member.generate(split, level, seed)
            assert task == member.generate(split, level, seed)
            assert (task.family, task.split, task.level, task.seed) == (member.name, split, level, seed)
            assert task.id == f"{member.name}/{split}/{level}/{seed}"
            assert set(task.tools) <= {tool.name for tool in member.tools}
            content = json.dumps([task.instruction, task.data, task.pictures], sort_keys=True)
            assert owner.setdefault(content, split) == split
            assert task_of(json.loads(json.dumps(task_record(task)))) == task


def test_demonstrators_of_more_effort_do_no_worse_and_slips_cost(case):
    member, level, runtime = case
    passed = {}
    for effort in EFFORTS:
        for slip in (0.0, 1.0):
            passed[effort, slip] = 0
            for seed in range(4 if member.isolated else 12):
                task = member.generate("train", level, seed)
                policy = member.demonstrate(task, Style(effort=effort, seed=seed, slip=slip))
                passed[effort, slip] += play(member, task, policy, seed, runtime)[0].status == "pass"
    assert passed["max", 0.0] >= passed["low", 0.0], passed
    assert sum(n for (_, slip), n in passed.items() if slip) <= sum(n for (_, slip), n in passed.items() if not slip), passed


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


def test_the_judge_agrees(case):
    member, level, runtime = case
    items, verdicts = [], []
    for seed in SEEDS:
        task = member.generate("train", level, seed)
        for policy in [member.gold(task), *member.hacks(task).values()]:
            result, final = play(member, task, policy, seed, runtime)
            if final:
                items.append((task, final))
                verdicts.append(result)
    with FreshVerifier() as verifier:
        assert verifier.verify_many(items) == verdicts


@pytest.mark.full
def test_gold_and_hacks_over_many_seeds(case):
    member, level, runtime = case
    for seed in range(100, 140 if member.isolated else 400):
        task = member.generate("train", level, seed)
        assert play(member, task, member.gold(task), seed, runtime)[0].status == "pass", task
        for name, policy in member.hacks(task).items():
            result, final = play(member, task, policy, seed, runtime)
            assert result.status != "pass", (name, task, final)
            assert result.score == 0.0, (name, task, final)

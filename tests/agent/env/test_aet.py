"""AET: the ledger counts what is wasted, hidden scenarios decide, and nothing to be found out lies within reach."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninefold.agent.env.aet import Aet
from ninefold.agent.env.aet.family import KINDS
from ninefold.agent.env.aet.kind import assess
from ninefold.agent.env.aet.ledger import Entry, alarm, entries, score, wasted
from ninefold.agent.env.aet.progress import Point, area, curve
from ninefold.agent.env.aet.world import OWN
from ninefold.agent.env.play import play
from ninefold.agent.env.script import plays, use
from ninefold.core.protocols import Move
from ninefold.core.types import Call, Task

FAMILY = Aet()
LEVELS = range(FAMILY.levels)


def _tasks(level: int, kind: str, count: int) -> list[Task]:
    tasks = (FAMILY.generate("train", level, seed) for seed in range(3 * count))
    return [task for task in tasks if task.data["kind"] == kind]


def _entry(right: int, call: int = 1, answer: str = "") -> Entry:
    return Entry(call=call, answer=answer, right=right, scenarios=4)


def test_each_submission_without_progress_costs() -> None:
    assert wasted([]) == 0
    assert wasted([_entry(0), _entry(2), _entry(2), _entry(1), _entry(4)]) == 3
    assert score(1.0, [_entry(4)]) == 1.0
    assert score(1.0, [_entry(0), _entry(4)]) == 0.9
    assert score(0.75, [_entry(3), _entry(3), _entry(4)]) == 0.65
    assert score(0.69, [_entry(4)]) == 0.0


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.floats(0, 1))
def test_scores_lie_between_nothing_and_completion(rights: list[int], completion: float) -> None:
    ledger = [_entry(right) for right in rights]
    assert 0.0 <= score(completion, ledger) <= completion + 1e-6
    assert score(completion, [*ledger, ledger[-1]]) <= score(completion, ledger)


def test_a_gap_between_public_and_hidden_completion_is_called_out() -> None:
    assert "gap alarm" in alarm(0.6, [_entry(4)])
    assert alarm(0.8, [_entry(4)]) == alarm(0.2, [_entry(1)]) == ""


def test_progress_is_completion_against_normalised_calls() -> None:
    ledger = [_entry(1, call=2, answer="half"), _entry(4, call=6, answer="whole")]
    points = curve(ledger, 8, {"half": 0.5, "whole": 1.0}.__getitem__)
    assert points == (Point(calls=0.25, completion=0.5), Point(calls=0.75, completion=1.0))
    assert area(points) == 0.5 * 0.5 + 1.0 * 0.25
    assert area(()) == 0.0


@pytest.mark.parametrize("level", LEVELS)
def test_hidden_scenarios_are_not_the_visible_ones(level: int) -> None:
    for task in (task for kind in KINDS for task in _tasks(level, kind, 4)):
        kind = KINDS[task.data["kind"]]
        visible, hidden = kind.inputs(task.data, "visible"), kind.inputs(task.data, "hidden")
        assert visible
        assert len(hidden) >= 3
        assert not [given for given in hidden if given in visible]
        assert hidden == kind.inputs(json.loads(json.dumps(task.data)), "hidden")


@pytest.mark.parametrize("level", [level for level in LEVELS if level > 1])
def test_what_is_to_be_found_out_is_not_in_the_sandbox(isolated, level: int) -> None:
    for kind in KINDS:
        task = _tasks(level, kind, 1)[0]
        world = FAMILY.open(task, seed=0, runtime=isolated)
        everything = world.call(
            Call(tool="shell", arguments={"command": "find . -type f | sort; env; cat $(find . -type f)"})
        ).text
        gold = KINDS[kind].gold(task.data)
        assert gold not in everything
        assert sorted(task.files) == [line[2:] for line in everything.splitlines() if line.startswith("./")]
        assert "explored" in world.call(Call(tool="shell", arguments={"command": "echo explored > seen; cat seen"})).text
        world.close()


def test_a_raw_call_counts_whatever_comes_of_it(isolated) -> None:
    task = _tasks(0, "audit", 1)[0]
    world = FAMILY.open(task, seed=0, runtime=isolated)
    pages = [world.call(Call(tool="probe", arguments={"input": str(page)})).text for page in (1, 2, 9, 1, 2, 3, 4)]
    assert pages[0] == pages[3]
    assert "=" in pages[0]
    assert pages[2] == "error: no such page"
    assert pages[6] == "error: no probes are left"
    assert [world.call(Call(tool="submit", arguments={"answer": "?"})).text for _ in range(3)] == [
        "0 of 1 visible . it cannot be used . 1 left",
        "0 of 1 visible . it cannot be used . 0 left",
        "error: no submissions are left",
    ]
    assert world.call(Call(tool="probe", arguments={})).text == "error: no calls are left"
    final = world.final(None)
    assert (final["probes"], final["calls"], wasted(entries(final))) == (6, 10, 2)
    world.close()


def test_what_is_offered_fits_the_level() -> None:
    for level in LEVELS:
        for kind in KINDS:
            tools = _tasks(level, kind, 1)[0].tools
            assert ("shell" in tools) == (level > 1)
            assert ("probe" in tools) == (kind != "audit" or level < 2)
            assert "submit" in tools
    assert {tool.name for tool in FAMILY.tools} >= {tool.name for tool in OWN}


def test_partial_solutions_are_worth_their_share(isolated) -> None:
    task = _tasks(4, "audit", 1)[0]
    whole = KINDS["audit"].gold(task.data).split()
    result, _ = play(FAMILY, task, plays(use("submit", answer=" ".join(whole[:-1])), Move(response="")), 0, isolated)
    assert (result.status, result.score) == ("fail", round(5 / 6, 6))
    task = _tasks(2, "replica", 1)[0]
    bend = task.data["program"].replace("def f(xs):", "def f(xs):\n    if sum(xs) % 5 == 0: return None")
    result, final = play(FAMILY, task, plays(use("submit", answer=bend), Move(response="")), 0, isolated)
    assert result.status == "fail"
    assert 0.7 < result.score < 0.9
    (point,) = FAMILY.progress(task, final, runtime=isolated)
    assert point.completion == pytest.approx(result.score + 0.1 * wasted(entries(final)), abs=1e-6)


def test_an_overfit_copy_is_worth_nothing_and_called_out(isolated) -> None:
    for task in _tasks(2, "replica", 3):
        hack = FAMILY.hacks(task)["knows the visible scenarios"]
        result, final = play(FAMILY, task, hack, 0, isolated)
        assert entries(final)[-1].right == 4
        assert (result.status, result.score) == ("fail", 0.0)
        assert "gap alarm" in result.detail


def test_noise_differs_from_probe_to_probe_and_resumes(isolated) -> None:
    task = _tasks(4, "factors", 1)[0]
    ask = Call(tool="probe", arguments={"input": ""})
    world = FAMILY.open(task, seed=3, runtime=isolated)
    seen = [int(world.call(ask).text) for _ in range(6)]
    restored = FAMILY.restore(task, world.save(), runtime=isolated)
    assert len(set(seen)) > 1
    assert max(abs(outcome - task.data["ground"]) for outcome in seen) <= task.data["noise"]
    assert [restored.call(ask).text for _ in range(6)] == [world.call(ask).text for _ in range(6)]


@pytest.mark.parametrize(
    "answer", ["heat", "heat=", "heat=x", "nothing=3", "*=3", "heat=3 heat=3", "heat*heat=3", "heat=3;salt=2", ""]
)
def test_reports_that_claim_nothing_proper_are_refused(answer: str) -> None:
    data = {"knobs": ["heat", "salt"], "effects": {"heat": 3}, "ground": 20}
    assert assess(KINDS["factors"], data, answer, "hidden", None).right == 0


def test_pairs_may_be_named_in_either_order() -> None:
    data = {"knobs": ["heat", "salt", "time"], "effects": {"heat": 3, "heat*salt": -4}, "ground": 20}
    assert assess(KINDS["factors"], data, "salt*heat=-4, heat=+3", "hidden", None).completion == 1.0

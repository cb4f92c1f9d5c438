"""Signed verdicts: what passes, what does not, and that forging one gains nothing."""

from __future__ import annotations

import json
import math
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninefold.agent import env
from ninefold.agent.env import family
from ninefold.agent.env.judge import Ask, Judge
from ninefold.agent.env.quiz import Quiz
from ninefold.agent.env.verdict import new_nonce, opened, signed
from ninefold.agent.env.verify import FreshVerifier
from ninefold.core.records import task_record
from ninefold.core.types import Result, Task

TASK = family("arithmetic").generate("train", 0, 1)
RESULTS = st.builds(Result, status=st.sampled_from(["pass", "fail"]), score=st.floats(0, 1), detail=st.text())


@given(RESULTS, st.integers(0, 9), st.text())
def test_a_verdict_is_good_for_its_own_item_only(result: Result, place: int, task: str) -> None:
    nonce = new_nonce()
    verdict = json.loads(json.dumps(signed(result, nonce=nonce, place=place, task=task)))
    assert opened(verdict, nonce=nonce, place=place, task=task) == result
    assert opened(verdict, nonce=nonce, place=place + 1, task=task) is None
    assert opened(verdict, nonce=nonce, place=place, task=task + "'") is None
    assert opened(verdict, nonce=new_nonce(), place=place, task=task) is None
    raised = ["pass", 1.0, *verdict[2:]]
    assert opened(raised, nonce=nonce, place=place, task=task) == (result if raised == verdict else None)


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, -0.01, 1.01, True, "1", None])
def test_a_score_is_a_finite_number_in_its_range(score: Any) -> None:
    verdict = signed(Result(status="pass", score=score), nonce="n", place=0, task="t")
    assert opened(verdict, nonce="n", place=0, task="t") is None


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=5)))
def test_anything_else_is_no_verdict(verdict: Any) -> None:
    assert opened(verdict, nonce="n", place=0, task="t") is None


class Forger(Quiz):
    """Its verifier, or a program that this one starts, writes a pass to every way out of the process that it finds."""

    spared: ClassVar[set[str]] = set()
    """Descriptors of the test run's own."""

    def verify(self, task: Task, final: object, **_: object) -> Result:
        line = json.dumps(["pass", 1.0, "", "0" * 64]) + "\n"
        for link in Path("/proc/self/fd").iterdir():
            try:
                if link.name not in self.spared and link.readlink().name.startswith(("pipe:", "socket:")):
                    os.write(int(link.name), line.encode())
            except OSError:
                continue
        return Result(status="fail")


class Sleeper(Quiz):
    """Its verifier hangs."""

    def verify(self, task: Task, final: object, **_: object) -> Result:
        time.sleep(600)
        return Result(status="pass", score=1.0)


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two more families, as a plug-in would bring them."""
    Forger.spared = {link.name for link in Path("/proc/self/fd").iterdir()}
    for kind in (Forger, Sleeper):
        monkeypatch.setitem(env._FAMILIES, kind.__name__, f"{__name__}:{kind.__name__}")


def ask(*names: str, seconds: float = 20.0, within: float | None = None) -> Ask:
    items = tuple((task_record(replace(TASK, family=name, id=f"{name}/{n}")), {}) for n, name in enumerate(names))
    until = None if within is None else time.monotonic() + within
    families = {name: name for name in names}
    places = tuple(range(len(items)))
    return Ask(nonce=new_nonce(), seconds=seconds, until=until, families=families, places=places, items=items)


@pytest.mark.usefixtures("plugged")
def test_a_forged_verdict_is_invalid_and_costs_nobody_else_his() -> None:
    results = dict(Judge("memory").verdicts(ask("arithmetic", "Forger", "arithmetic")))
    assert [results[n].status for n in range(3)] == ["fail", "invalid", "fail"]
    assert "no verdict on this task" in results[1].detail


@pytest.mark.usefixtures("plugged")
def test_one_that_hangs_keeps_nobody_from_being_judged_by_the_deadline() -> None:
    results = dict(Judge("memory").verdicts(ask("Sleeper", *["arithmetic"] * 50, within=2.0)))
    assert [results[n].status for n in range(51)] == ["invalid", *["fail"] * 50]
    assert "deadline passed while the verifier was still at it" in results[0].detail


@pytest.mark.usefixtures("plugged")
def test_what_nobody_came_to_names_the_culprits() -> None:
    results = dict(Judge("memory").verdicts(ask(*["Sleeper"] * 4, within=0.5)))
    assert {result.status for result in results.values()} == {"invalid"}
    assert "Sleeper/0" in results[3].detail


def test_no_time_is_no_verdict() -> None:
    with FreshVerifier() as verifier:
        (result,) = verifier.verify_many([(TASK, {})], within=0.0)
    assert result.status == "invalid"

"""Verification in a fresh process: what may go wrong there, and what cannot reach it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from ninefold.agent.env import family
from ninefold.agent.env.arithmetic import Arithmetic
from ninefold.agent.env.play import play
from ninefold.agent.env.verify import FreshVerifier
from ninefold.core.types import Result, Task

T = TypeVar("T")
TASK = family("arithmetic").generate("train", 0, 1)
_, RIGHT = play(family("arithmetic"), TASK, family("arithmetic").gold(TASK))
WRONG = {"response": "no digit"}
BROKEN = replace(TASK, data={})
"""Its verifier raises."""
SLOW = replace(TASK, data={"expression": "+".join(["7"] * 4_000_000)})
"""Its verifier takes seconds."""

needs_proc = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds processes through /proc")


@pytest.fixture
def judges() -> Callable[[], list[int]]:
    """This process's children but those that other tests of the session left, as multiprocessing does its resource tracker."""
    before = set(_children(os.getpid())) if Path("/proc/self/task").is_dir() else set()
    return lambda: [child for child in _children(os.getpid()) if child not in before]


@pytest.fixture
def verifier(judges: object) -> Iterator[FreshVerifier]:
    """Opened after other children are listed."""
    with FreshVerifier(seconds=20.0) as verifier:
        yield verifier


def _statuses(results: list[Result]) -> list[str]:
    return [result.status for result in results]


def test_verdicts_come_in_order(verifier):
    assert verifier(TASK, RIGHT) == Result(status="pass", score=1.0)
    finals = [RIGHT, WRONG, {}, {"response": 3}, RIGHT]
    assert _statuses(verifier.verify_many([(TASK, final) for final in finals])) == ["pass", "fail", "fail", "fail", "pass"]
    assert verifier.verify_many([]) == []


def test_a_verifier_that_raises_is_invalid(verifier):
    results = verifier.verify_many([(TASK, RIGHT), (BROKEN, RIGHT), (TASK, WRONG)])
    assert _statuses(results) == ["pass", "invalid", "fail"]
    assert "KeyError" in results[1].detail


def test_an_unknown_family_costs_only_its_own_verdict(verifier):
    results = verifier.verify_many([(TASK, RIGHT), (replace(TASK, family="none"), RIGHT)])
    assert _statuses(results) == ["pass", "invalid"]
    assert "no task family" in results[1].detail


def test_isolation_is_the_one_that_was_asked_for():
    """The in-memory runtime executes nothing, so that nobody can tell."""
    task = family("expression").generate("train", 0, 0)
    with FreshVerifier(isolation="memory") as verifier:
        results = verifier.verify_many([(task, {"response": "2*5+3"}), (TASK, RIGHT)])
    assert _statuses(results) == ["invalid", "pass"]


def test_a_verifier_that_overruns_costs_only_its_own_verdict():
    with FreshVerifier(seconds=0.5) as verifier:
        results = verifier.verify_many([(TASK, RIGHT), (SLOW, RIGHT), (TASK, RIGHT)])
    assert _statuses(results) == ["pass", "invalid", "pass"]
    assert "more than 0.5 s" in results[1].detail


@needs_proc
def test_a_child_that_dies_costs_only_its_own_verdict(verifier, judges):
    assert verifier(TASK, RIGHT).status == "pass"
    (judge,) = _children(judges()[0]) or judges()  # its first process waits for the one in namespaces of their own
    _await(lambda: not _children(judge))
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(verifier.verify_many, [(TASK, RIGHT), (SLOW, RIGHT), (TASK, RIGHT)])
        child = _await(lambda: _children(judge))[0]
        # By now the first verdict is out: it takes microseconds, and reading the slow task's record is not it.
        time.sleep(0.2)
        os.kill(child, signal.SIGKILL)
        results = pending.result()
    assert results.count(Result(status="invalid", detail="the verifier's process died")) == 1
    assert results[2].status == "pass"


@needs_proc
def test_a_judge_that_was_killed_is_replaced(verifier, judges):
    assert verifier(TASK, RIGHT).status == "pass"
    (first,) = judges()
    # The one in namespaces of its own: left alone it may still answer while it dies with its first process.
    (judge,) = _children(first) or [first]
    os.kill(judge, signal.SIGKILL)
    assert verifier(TASK, RIGHT).status == "pass"
    assert judges() != [first]


@needs_proc
def test_nothing_is_left_after_close(judges):
    verifier = FreshVerifier()
    verifier(TASK, RIGHT)
    assert len(judges()) == 1
    verifier.close()
    assert judges() == []
    assert verifier(TASK, RIGHT).status == "pass", "a closed verifier starts anew"
    verifier.close()


def test_what_happens_here_does_not_reach_the_judge(verifier, monkeypatch, tmp_path):
    def always(self: Arithmetic, task: Task, final: object, **_: object) -> Result:
        return Result(status="pass", score=1.0)

    (tmp_path / "ninefold").mkdir()
    (tmp_path / "ninefold" / "__init__.py").write_text("raise SystemExit")
    monkeypatch.setattr(Arithmetic, "verify", always)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert family("arithmetic").verify(TASK, WRONG).status == "pass"
    assert verifier(TASK, WRONG).status == "fail"


def test_threads_share_one_judge(verifier):
    with ThreadPoolExecutor(4) as pool:
        verdicts = list(pool.map(lambda i: verifier(TASK, RIGHT if i % 2 else WRONG).status, range(24)))
    assert verdicts == ["fail", "pass"] * 12


def _children(pid: int) -> list[int]:
    return [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]


def _await(found: Callable[[], T]) -> T:
    for _ in range(2000):
        if something := found():
            return something
        time.sleep(0.005)
    raise AssertionError("it did not come")

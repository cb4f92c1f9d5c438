"""The family keeps every promise, and nobody is rewarded who did not solve its task."""

from __future__ import annotations

from pathlib import Path

from ninefold.agent.env import family
from ninefold.agent.env.check import check
from ninefold.agent.env.hack import attack

HERE = Path(__file__).parent


def test_it_keeps_every_promise() -> None:
    assert [finding for finding in check(family(str(HERE))) if finding.status != "kept"] == []


def test_no_attack_succeeds() -> None:
    report = attack(family(str(HERE)), seeds=2, mutants=40)
    assert report.successes == ()

"""Some problems of a checkout of KernelBench: gold passes, and what is near, remembered or looked for earns nothing."""

from __future__ import annotations

import os
import re
import sysconfig
from pathlib import Path

import pytest

from ninefold.agent.env import family
from ninefold.agent.env.kernelbench import KernelBench, checkout
from ninefold.agent.env.kernelbench.hacks import writes
from ninefold.agent.env.play import play
from ninefold.data.tasks.kernelbench import import_level
from ninefold.sandbox.runtime import PACKAGES, open_runtime

PLACE = os.environ.get(checkout.PLACE, str(Path(__file__).parents[3] / "runs" / "referees" / "kernelbench"))
pytestmark = [
    pytest.mark.referee,
    pytest.mark.skipif(not Path(PLACE, "KernelBench").is_dir(), reason="no checkout of KernelBench (NINEFOLD_KERNELBENCH)"),
]
NEAR = "    def forward(self, *inputs):\n        return self.right(*inputs) * 1.001\n\n    def right(self"


@pytest.mark.parametrize(("level", "number"), [(1, "19"), (1, "40"), (1, "97"), (2, "12"), (2, "76")])
def test_gold_passes_and_what_is_near_does_not(level: int, number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(checkout.PLACE, PLACE)
    monkeypatch.setenv(PACKAGES, sysconfig.get_paths()["purelib"])
    kind = family("kernelbench")
    assert isinstance(kind, KernelBench)
    runtime = open_runtime()
    try:
        ((task,), left_out) = import_level(level, runtime, only=[number])
        assert not left_out
        result, final = play(kind, task, kind.gold(task), runtime=runtime)
        assert (result.status, result.score > 0) == ("pass", True), result
        near = re.sub(r"    def forward\(self", NEAR, final["files"]["model_new.py"], count=1)
        assert play(kind, task, writes(near), runtime=runtime)[0].status == "fail"
        for name in ("1 returns its first output", "its input", "11 imports the reference"):
            assert play(kind, task, kind.hacks(task)[name], runtime=runtime)[0].score == 0.0, name
    finally:
        runtime.close()


def test_a_problem_whose_output_is_a_constant_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(checkout.PLACE, PLACE)
    monkeypatch.setenv(PACKAGES, sysconfig.get_paths()["purelib"])
    runtime = open_runtime()
    try:
        tasks, (reason,) = import_level(2, runtime, only=["80"])
    finally:
        runtime.close()
    assert not tasks
    assert "a constant would pass" in reason

"""The ablation bench: its plan follows the searches, its runs resume, its ratios are those of curves made by hand."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench" / "ablation.py"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ablation", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def losses(bench: ModuleType, plan: Any, optimum: dict[str, float]) -> list[Any]:
    """Every job of the plan in the order it was asked for, with losses that rise away from each arm's best factor."""
    found: dict[Any, dict[str, float]] = {}
    while missing := [job for job in plan.jobs(found) if job not in found]:
        job = missing[0]
        away = abs(math.log2(job.factor / optimum.get(job.arm, 1.0)))
        text = 3.0 + 0.1 * away + 0.01 * job.seed - 0.1 * math.log2(job.tokens / plan.tokens)
        found[job] = {"text": text, "worksheets": text, "overload": 1.0, "dead": 0.0, "flops": float(job.tokens)}
    return list(found.items())


def test_the_search_goes_on_until_the_best_lies_inside(bench: ModuleType) -> None:
    plan = bench.Plan(arms=("base", "SwiGLU", "k2"), compared=("nano",))
    runs = losses(bench, plan, {"SwiGLU": 4.0, "k2": 0.125})
    found = dict(runs)
    assert [plan.best(found, arm, "nano") for arm in plan.arms] == [1.0, 4.0, 0.125]
    tried = {arm: sorted(plan.searched(found, arm, "nano")) for arm in plan.arms}
    assert tried["base"] == [0.5, 1.0, 2.0]
    assert tried["SwiGLU"] == [1.0, 2.0, 4.0, 8.0]
    assert min(tried["k2"]) == 1 / plan.furthest
    jobs = [job for job, _ in runs]
    assert [job.seed for job in jobs[:9]] == [0] * 9
    assert all(job.factor == plan.best(found, job.arm, "nano") for job in jobs if job.seed or job.tokens != plan.tokens)
    budgets = {(job.arm, job.tokens, job.seed) for job in jobs if job.tokens != plan.tokens}
    assert len(budgets) == 2 * len(plan.budgets) * len(plan.seeds)


def test_ratio_of_shifted_curves_is_their_shift(bench: ModuleType) -> None:
    ours = [(c, 4.0 - 0.5 * math.log2(c)) for c in (1.0, 2.0, 4.0)]
    theirs = [(2.5 * c, loss) for c, loss in ours]
    assert bench.ratio(ours, theirs) == pytest.approx(2.5)
    assert bench.compute_at(ours, 3.75) == pytest.approx(2**0.5)
    low, high = bench.span(ours, [(c, loss + 9) for c, loss in ours])
    assert low > high


def test_pairs_by_seed_and_their_interval(bench: ModuleType) -> None:
    mean, half = bench.interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert half == pytest.approx(4.303 / 3**0.5)
    assert math.isinf(bench.interval([1.0])[1])


def test_smoke_runs_everything_and_reports(bench: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--smoke"]) == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert said["ok"]
    assert said["figures"]["ablations"].keys() == bench.ARMS.keys()
    assert all(math.isfinite(arm["text"]) and arm["seeds"] == 2 for arm in said["figures"]["ablations"].values())


def test_a_report_needs_only_the_results(bench: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, path = bench.Plan(), tmp_path / "results.jsonl"
    lines = [
        {**bench.asdict(job), "setting": "s", "model": "m", "result": {**result, "cpu": 1.0}}
        for job, result in losses(bench, plan, {"k2": 2.0})
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert bench.main(["--report", "--results", str(path)]) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])["figures"]
    assert figures["ablations"]["k2"]["factor"] == 2.0
    assert figures["compute"]["nano text"]["ratio"] == pytest.approx(1.0)
    assert bench.main(["--report", "--results", str(tmp_path / "none.jsonl")]) == 1

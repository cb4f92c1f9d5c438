"""Quantile Balancing: the report's example, golden cases, dynamics, and counts that add up over any split."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ninefold.model.ops.balance import MarginHistogram, dead_share, exact_bias, expert_load, max_over_mean
from ninefold.model.ops.moe import route


@pytest.fixture(scope="module")
def cases(golden: Path) -> dict[str, Any]:
    return json.loads((golden / "qb" / "qb.json").read_text())


def double(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_exact_form_golden(cases: dict[str, Any]) -> None:
    for case in cases["cases"]:
        scores, old = double(case["s"]), double(case["b_old"])
        index, _, cutoff = route(scores, old, case["k"])
        torch.testing.assert_close(cutoff, double(case["alpha"]), rtol=0, atol=1e-12)
        assert expert_load(index, case["n"]).tolist() == case["load"]
        bias = exact_bias(scores, cutoff, case["k"])
        torch.testing.assert_close(bias, double(case["b_centered"]), rtol=0, atol=1e-12)
        again, _, _ = route(scores, bias, case["k"])
        assert expert_load(again, case["n"]).tolist() == case["load_after_same_batch"]


def test_report_example(cases: dict[str, Any]) -> None:
    scores = double(cases["figure5_bars_as_margins"]["bars"]) / 100
    index, _, cutoff = route(scores, torch.zeros(4, dtype=torch.float64), 1)
    assert expert_load(index, 4).tolist() == [4, 3, 1, 0]
    balanced, _, _ = route(scores, exact_bias(scores, cutoff, 1), 1)
    assert expert_load(balanced, 4).tolist() == [2, 2, 2, 2]


def test_histogram_golden(cases: dict[str, Any]) -> None:
    for case in cases["cases"]:
        scores, old, k = double(case["s"]), double(case["b_old"]), case["k"]
        _, _, cutoff = route(scores, old, k)
        for want in case["hist"]:
            histogram = MarginHistogram.empty(old, bins=want["B"])
            histogram.add(scores, cutoff)
            assert histogram.low == pytest.approx(want["lo"], abs=1e-12)
            assert histogram.width == pytest.approx(want["width"], abs=1e-12)
            assert want["counts"] is None or histogram.counts_EB.tolist() == want["counts"]
            torch.testing.assert_close(histogram.bias(k), double(want["b_centered"]), rtol=0, atol=1e-12)


def test_dynamics_golden(cases: dict[str, Any]) -> None:
    for run in cases["dynamics"]:
        scores, bias = double(run["s"]), torch.zeros(run["n"], dtype=torch.float64)
        for step in run["trajectory"]:
            torch.testing.assert_close(bias, double(step["b"]), rtol=0, atol=1e-9)
            index, _, cutoff = route(scores, bias, run["k"])
            assert expert_load(index, run["n"]).tolist() == step["load"]
            bias = exact_bias(scores, cutoff, run["k"])


@settings(max_examples=40, deadline=None)
@given(T=st.integers(2, 60), E=st.integers(2, 9), seed=st.integers(0, 1000), cuts=st.lists(st.integers(0, 60), max_size=3))
def test_histogram_is_additive_and_within_a_bin_of_the_order_statistic(T: int, E: int, seed: int, cuts: list[int]) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(T, E, generator=generator)
    old = 0.3 * torch.randn(E, generator=generator)
    k = 1 + seed % (E - 1)
    _, _, cutoff = route(scores, old, k)
    whole, parts = MarginHistogram.empty(old), MarginHistogram.empty(old)
    whole.add(scores, cutoff)
    mask = torch.rand(T, generator=generator) < 0.5
    edges = [0, *sorted(min(c, T) for c in cuts), T]
    for start, end in pairwise(edges):
        for chosen in (mask, ~mask):
            parts.add(scores[start:end][chosen[start:end]], cutoff[start:end][chosen[start:end]])
    assert torch.equal(whole.counts_EB, parts.counts_EB)
    assert torch.equal(whole.bias(k), parts.bias(k))
    order = -(-T * k // E)
    exact = (cutoff[:, None] - scores).double().kthvalue(order, dim=0).values
    raw = whole.bias(k) - whole.bias(k).mean() + exact.mean()
    assert float((raw - exact).abs().max()) <= 2 * whole.width + 1e-6


def test_skewed_router_of_many_experts_balances_in_two_updates() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.sigmoid(torch.randn(4096, 64, generator=generator) + 2 * torch.randn(64, generator=generator))
    bias = torch.zeros(64)
    loads = []
    for _ in range(3):
        index, _, cutoff = route(scores, bias, 4)
        loads.append(expert_load(index, 64))
        histogram = MarginHistogram.empty(bias)
        histogram.add(scores, cutoff)
        bias = histogram.bias(4).float()
    assert max_over_mean(loads[0]) > 5
    assert dead_share(loads[0]) > 0.2
    assert max_over_mean(loads[2]) < 1.5
    assert dead_share(loads[2]) == 0.0


def test_load_metrics() -> None:
    assert max_over_mean(torch.tensor([4, 3, 1, 0])) == 2.0
    assert dead_share(torch.tensor([4, 3, 1, 0])) == 0.25
    assert max_over_mean(torch.zeros(4, dtype=torch.int64)) == 0.0


def test_bias_is_centred() -> None:
    scores, cutoff = torch.rand(32, 8), torch.rand(32)
    bias = exact_bias(scores, cutoff, 2)
    assert abs(float(bias.mean())) < 1e-6

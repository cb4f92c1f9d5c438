"""Newton–Schulz: golden matrices, per-head batches, singular values, zero and scale."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from ninefold.model.ops.newton_schulz import newton_schulz


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-5), (torch.bfloat16, 5e-2)])
def test_golden(golden: Path, dtype: torch.dtype, tolerance: float) -> None:
    case = load_file(golden / "muon" / "muon.safetensors")
    per_head = newton_schulz(case["G"].unflatten(0, (4, 6)), dtype=dtype).flatten(0, 1)
    for got, name in (
        (newton_schulz(case["G"], dtype=dtype), "ns5_full"),
        (per_head, "ns5_per_head"),
        (newton_schulz(case["G_tall"], dtype=dtype), "ns5_tall"),
        (newton_schulz(case["G_wide"], dtype=dtype), "ns5_wide"),
        (newton_schulz(case["zero"], dtype=dtype), "zero"),
    ):
        assert got.dtype == torch.float64
        torch.testing.assert_close(got, case[name], rtol=tolerance, atol=tolerance)
    rms = per_head.unflatten(0, (4, 6)).pow(2).mean((1, 2)).sqrt()
    torch.testing.assert_close(rms, case["per_head_rms"], rtol=5 * tolerance, atol=5 * tolerance)


@settings(max_examples=25, deadline=None)
@given(rows=st.integers(1, 12), columns=st.integers(1, 12), batch=st.integers(1, 4), seed=st.integers(0, 1000))
def test_batch_transpose_and_scale(rows: int, columns: int, batch: int, seed: int) -> None:
    g = torch.randn(batch, rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    x = newton_schulz(g, dtype=torch.float64)
    for one, whole in zip(g, x):
        torch.testing.assert_close(newton_schulz(one, dtype=torch.float64), whole, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(newton_schulz(g.mT, dtype=torch.float64), x.mT, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(newton_schulz(1e6 * g, dtype=torch.float64), x, rtol=1e-3, atol=1e-3)


def test_singular_values_end_near_one() -> None:
    g = torch.randn(3, 32, 48, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(newton_schulz(g))
    assert float(values.max()) < 1.3
    assert float(values.quantile(0.1)) > 0.6

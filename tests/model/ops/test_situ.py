"""SiTU-GLU: golden vectors, bounds, limits, and the fused kernels against PyTorch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch.nn.functional import silu

from ninefold.model.ops.naive import situ_glu_naive
from ninefold.model.ops.situ import situ_glu, weighted_situ_glu


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-6)])
def test_golden(golden: Path, dtype: torch.dtype, tolerance: float) -> None:
    case = load_file(golden / "situ" / "situ_glu.safetensors")
    gate, up = (case[n].to(dtype).requires_grad_() for n in ("gate", "up"))
    y = situ_glu(gate, up)
    grads = torch.autograd.grad((y * case["w"]).sum(), (gate, up))
    for got, name in zip((y.detach(), *grads), ("y", "grad_gate", "grad_up")):
        torch.testing.assert_close(got.double(), case[name], rtol=tolerance, atol=tolerance * float(case[name].abs().max()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bounds_hold_at_extremes_with_zero_gradient(dtype: torch.dtype) -> None:
    gate = torch.tensor([1e30, 1e30, -1e30, -1e30, float("inf")], dtype=dtype, requires_grad=True)
    up = torch.tensor([1e30, -1e30, 1e30, -1e30, float("inf")], dtype=dtype, requires_grad=True)
    y = situ_glu(gate, up)
    assert y.tolist() == [100.0, -100.0, 0.0, 0.0, 100.0]
    assert all((g == 0).all() for g in torch.autograd.grad(y.sum(), (gate, up)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nan_is_not_hidden(dtype: torch.dtype) -> None:
    nan = torch.tensor([float("nan"), 1.0], dtype=dtype)
    assert situ_glu(nan, nan.flip(0)).isnan().all()


@settings(max_examples=60, deadline=None)
@given(gate=st.floats(-(2.0**100), 2.0**100, width=32), up=st.floats(-(2.0**100), 2.0**100, width=32))
def test_kernel_equals_naive_everywhere(gate: float, up: float) -> None:
    got = situ_glu(torch.tensor([gate]), torch.tensor([up]))
    want = situ_glu_naive(torch.tensor([gate], dtype=torch.float64), torch.tensor([up], dtype=torch.float64))
    assert abs(float(got)) <= 100.0
    torch.testing.assert_close(got.double(), want, rtol=2e-6, atol=1e-36)


def test_swiglu_is_the_limit_of_large_betas_and_of_small_inputs() -> None:
    gate, up = torch.randn(2, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(situ_glu(gate, up, 1e6, 1e6), silu(gate) * up, rtol=1e-9, atol=1e-9)
    small = 1e-3 * gate
    torch.testing.assert_close(situ_glu(small, 1e-3 * up), silu(small) * 1e-3 * up, rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 3, 5), (33, 8, 32)], ids=str)
def test_weighted_form_and_gradients(shape: tuple[int, int, int]) -> None:
    generator = torch.Generator().manual_seed(1)
    gate, up, d = (4 * torch.randn(3, *shape, generator=generator, dtype=torch.float64)).unbind()
    weight = torch.rand(shape[:2], generator=generator, dtype=torch.float64)
    weight[torch.rand(shape[:2], generator=generator) < 0.5] = 0.0

    def run(dtype: torch.dtype) -> list[torch.Tensor]:
        leaves = [x.to(dtype).requires_grad_() for x in (gate, up, weight)]
        y = weighted_situ_glu(*leaves)
        return [y.detach(), *torch.autograd.grad((y * d.to(dtype)).sum(), leaves)]

    want = run(torch.float64)
    torch.testing.assert_close(want[0], situ_glu_naive(gate, up) * weight[..., None])
    assert (want[3][weight == 0] == 0).all()
    for got, expected in zip(run(torch.float32), want):
        torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=1e-5)


def test_views_and_empty_inputs() -> None:
    wide = torch.randn(6, 8, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(situ_glu(wide[:, ::2], wide[:, 1::2]), situ_glu_naive(wide[:, ::2], wide[:, 1::2]))
    assert situ_glu(wide[:0], wide[:0]).shape == (0, 8)


def test_no_gate_is_nan_where_the_exponential_overflows() -> None:
    gate = torch.linspace(-89.0, -88.0, 2001)
    assert situ_glu(gate, torch.ones_like(gate)).isfinite().all()

"""Short convolution: golden vectors, naive = PyTorch = C, no leak between documents, decoding equals the sequence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor

from ninefold.core.layout import DocLayout
from ninefold.model.ops import native
from ninefold.model.ops.conv import short_conv, short_conv_step
from ninefold.model.ops.naive import short_conv_naive

Form = Callable[..., tuple[Tensor, Tensor]]


def run(form: Form, x: Tensor, weight: Tensor, layout: DocLayout, initial: Tensor | None) -> list[Tensor]:
    leaves = [t.clone().requires_grad_() for t in (x, weight) + (() if initial is None else (initial,))]
    y, final = form(leaves[0], leaves[1], layout, *leaves[2:])
    loss = (y * torch.linspace(-1, 2, y.numel(), dtype=y.dtype).view_as(y)).sum()
    loss = loss + (final * torch.linspace(1, 3, final.numel(), dtype=y.dtype).view_as(final)).sum()
    return [y.detach(), final.detach(), *torch.autograd.grad(loss, leaves)]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_golden(golden: Path, dtype: torch.dtype, tolerance: float) -> None:
    case = {name: x.to(dtype) for name, x in load_file(golden / "kda" / "short_conv_silu.safetensors").items()}
    x, weight = case["x"].requires_grad_(), case["weight"].requires_grad_()
    B, T, _ = x.shape
    y, _ = short_conv(x.flatten(0, 1), weight, DocLayout.of([T] * B))
    torch.testing.assert_close(y, case["y"].flatten(0, 1), rtol=tolerance, atol=tolerance)
    for got, name in zip(torch.autograd.grad((y.view(x.shape) * case["w"]).sum(), (x, weight)), ("grad_x", "grad_weight")):
        torch.testing.assert_close(got, case[name], rtol=tolerance, atol=tolerance)


@settings(max_examples=30, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    channels=st.integers(1, 19),
    initial=st.booleans(),
    width=st.sampled_from([2, 4, 5]),
    seed=st.integers(0, 1000),
)
def test_both_forms_equal_naive(lengths: list[int], channels: int, initial: bool, width: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    layout = DocLayout.of(lengths)
    x = 3 * torch.randn(layout.tokens, channels, generator=generator, dtype=torch.float64)
    weight = torch.randn(channels, width, generator=generator, dtype=torch.float64)
    state = torch.randn(len(lengths), width - 1, channels, generator=generator, dtype=torch.float64) if initial else None
    want = run(short_conv_naive, x, weight, layout, state)
    for got, expected in zip(run(short_conv, x, weight, layout, state), want, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-10)
    single = run(short_conv, x.float(), weight.float(), layout, None if state is None else state.float())
    for got, expected in zip(single, want, strict=True):
        torch.testing.assert_close(got.double(), expected, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_documents_do_not_leak(dtype: torch.dtype) -> None:
    layout = DocLayout.of([4, 1, 6])
    x, weight = torch.randn(11, 8, dtype=dtype), torch.randn(8, 4, dtype=dtype)
    before = run(short_conv, x, weight, layout, None)
    changed = x.clone()
    changed[4] += 1.0
    after = run(short_conv, changed, weight, layout, None)
    others = torch.arange(11) != 4
    for index in (0, 2):
        assert torch.equal(before[index][others], after[index][others])
        assert not torch.equal(before[index][4], after[index][4])


def test_extreme_inputs_stay_finite() -> None:
    x = torch.tensor([[1e30, -1e30, 1e4, -1e4]]).expand(6, 4).contiguous()
    assert all(t.isfinite().all() for t in run(short_conv, x, torch.ones(4, 4), DocLayout.of([6]), None)[:1])
    y = short_conv(x, torch.ones(4, 4), DocLayout.of([6]))[0]
    torch.testing.assert_close(y[-1], torch.tensor([4e30, 0.0, 4e4, 0.0]))


def test_steps_equal_the_sequence() -> None:
    layout = DocLayout.of([7, 7, 7])
    x, weight, state = torch.randn(21, 5), torch.randn(5, 4), torch.randn(3, 3, 5)
    whole, final = short_conv(x, weight, layout, state)
    moving = state.clone()
    rows = [short_conv_step(x.view(3, 7, 5)[:, t], weight, moving) for t in range(7)]
    torch.testing.assert_close(torch.stack(rows, 1).flatten(0, 1), whole)
    if native.status().available:
        assert torch.equal(torch.stack(rows, 1).flatten(0, 1), whole)
    assert torch.equal(moving, final)

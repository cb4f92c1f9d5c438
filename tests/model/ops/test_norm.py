"""RMSNorm: both forms against float64, outputs and gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ninefold.model.ops.norm import rms_norm, rms_norm_torch


@pytest.mark.parametrize("form", [rms_norm, rms_norm_torch])
@pytest.mark.parametrize("shape", [(1, 1), (5, 32), (3, 7, 64), (2, 45), (0, 8)])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_values_and_gradients(form: Callable[..., Tensor], shape: tuple[int, ...], scale: float) -> None:
    generator = torch.Generator().manual_seed(1)
    x, weight = torch.randn(shape, generator=generator) * scale, torch.randn(shape[-1], generator=generator)
    d_y = torch.randn(shape, generator=generator)
    results = []
    for rms, dtype in ((form, torch.float32), (rms_norm_torch, torch.float64)):
        leaf, scale_C = (t.to(dtype).requires_grad_() for t in (x, weight))
        y = rms(leaf, scale_C, 1e-5)
        results.append([y, *torch.autograd.grad((y * d_y.to(dtype)).sum(), (leaf, scale_C))])
    # A row of one channel normalises to ±1: its gradient is what is left of two equal terms.
    tolerance = 2e-6 * max(1.0, scale**-1, *(float(want.detach().abs().max()) for want in results[1] if want.numel()))
    for got, want in zip(*results):
        torch.testing.assert_close(got.double(), want, atol=tolerance, rtol=1e-5)


def test_a_slice_is_normed_like_its_copy() -> None:
    x, weight = torch.randn(6, 20), torch.ones(8)
    torch.testing.assert_close(rms_norm(x[:, 3:11], weight, 1e-5), rms_norm(x[:, 3:11].clone(), weight, 1e-5), atol=0, rtol=0)

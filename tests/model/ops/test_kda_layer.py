"""The KDA layer in C equals its single operations in float64, outputs, states and gradients; steps equal the packed form."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from ninefold.core.layout import DocLayout
from ninefold.model.kda import KDA, KDAState
from ninefold.model.ops import native
from ninefold.model.ops.kda_layer import kda_layer, kda_layer_step
from tests.model.ops.test_layer import CONFIGS, K3Config, drawn, normal

pytestmark = pytest.mark.skipif(not native.status().available, reason=native.status().detail)
LAYOUT = DocLayout.of([1, 2, 37, 16, 3])


@CONFIGS
@pytest.mark.parametrize("continued", [False, True])
@pytest.mark.parametrize("amount", [0.2, 1.0])
def test_packed_values_and_gradients(config: K3Config, continued: bool, amount: float) -> None:
    layer = drawn(KDA(config), amount)
    heads, width = config.num_attention_heads, config.linear_head_dim
    state = KDAState(normal(5, 3, 3 * heads * width), normal(5, heads, width, width, scale=0.1))
    x_TD = normal(LAYOUT.tokens, config.hidden_size)
    results = []
    for model, dtype in ((layer, torch.float32), (copy.deepcopy(layer).double(), torch.float64)):
        leaves = [x_TD.to(dtype).requires_grad_(), *(part.to(dtype).requires_grad_() for part in state)]
        initial = KDAState(*leaves[1:]) if continued else None
        fused = model.fused()
        assert (fused._kernel is not None) == (dtype is torch.float32)  # pyright: ignore[reportPrivateUsage]
        y_TD, after = fused.packed(leaves[0], LAYOUT, initial)
        weigh = [torch.randn(t.shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64) for t in (y_TD, *after)]
        loss = torch.stack([(t * w.to(dtype)).sum() for t, w in zip((y_TD, *after), weigh)]).sum()
        wanted = [*leaves[: 3 if continued else 1], *model.parameters()]
        results.append([y_TD, *after, *torch.autograd.grad(loss, wanted)])
    for got, want in zip(*results):
        torch.testing.assert_close(got.double(), want, atol=2e-5 * max(1.0, float(want.detach().abs().max())), rtol=1e-4)


@CONFIGS
def test_steps_are_the_packed_form_bit_for_bit(config: K3Config) -> None:
    fused = drawn(KDA(config), 0.3).fused()
    heads, width = config.num_attention_heads, config.linear_head_dim
    kernel = fused._kernel  # pyright: ignore[reportPrivateUsage]
    assert kernel is not None
    with torch.no_grad():
        x_TI = normal(20, fused.input_ID.shape[0])
        state = KDAState(torch.zeros(1, 3, 3 * heads * width), torch.zeros(1, heads, width, width))
        packed, final = kda_layer(x_TI, kernel, *state, DocLayout.of([20]))
        stepped = torch.cat([kda_layer_step(x_1I[None], kernel, *state) for x_1I in x_TI])
    assert torch.equal(stepped, packed)
    assert torch.equal(state.delta_DHKV, final)


@CONFIGS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_cut_keeps_what_a_shorter_document_leaves(config: K3Config, dtype: torch.dtype) -> None:
    fused = drawn(KDA(config), 0.3).to(dtype).fused()
    heads, width = config.num_attention_heads, config.linear_head_dim
    state = KDAState(normal(5, 3, 3 * heads * width).to(dtype), normal(5, heads, width, width, scale=0.1).to(dtype))
    x_TD, after = normal(LAYOUT.tokens, config.hidden_size).to(dtype), np.array([0, 2, 20, 1, 3])
    with torch.no_grad():
        y_TD, final, cut = fused.packed_cut(x_TD, LAYOUT, state, after)
        whole, wanted = fused.packed(x_TD, LAYOUT, state)
        for got, want in zip((y_TD, *final), (whole, *wanted)):
            assert torch.equal(got, want)
        for n in range(1, 5):
            first = int(LAYOUT.cu_seqlens[n])
            began = KDAState(*(part[n : n + 1] for part in state))
            left = fused.packed(x_TD[first : first + int(after[n])], DocLayout.of([int(after[n])]), began)[1]
            for got, want in zip(cut, left):
                torch.testing.assert_close(got[n : n + 1], want, atol=1e-12 if dtype is torch.float64 else 0, rtol=0)

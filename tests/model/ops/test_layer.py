"""Layer kernels for generation equal the layers' own single operations in float64, at the widths they take."""

from __future__ import annotations

import copy
from typing import TypeVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ninefold.model.config import K3Config
from ninefold.model.decode import step_mask
from ninefold.model.kda import KDA, KDAState
from ninefold.model.mla import MLA
from ninefold.model.moe import LatentMoE
from ninefold.model.ops import native
from ninefold.model.presets import preset

pytestmark = pytest.mark.skipif(not native.status().available, reason=native.status().detail)

NARROW = preset("tiny")
UNEVEN = NARROW.model_copy(
    update={
        "hidden_size": 24,
        "num_attention_heads": 3,
        "linear_head_dim": 48,
        "decay_rank": 5,
        "q_lora_rank": 9,
        "kv_lora_rank": 48,
        "qk_nope_head_dim": 11,
        "qk_rope_head_dim": 5,
        "v_head_dim": 16,
        "num_experts": 7,
        "num_experts_per_token": 3,
        "routed_expert_hidden_size": 96,
        "moe_intermediate_size": 96,
        "shared_intermediate_size": 21,
        "activation_situ_beta": 2.0,
        "activation_situ_linear_beta": 3.0,
    }
)
CONFIGS = pytest.mark.parametrize("config", [NARROW, preset("nano"), UNEVEN], ids=["tiny", "nano", "uneven"])


M = TypeVar("M", bound=nn.Module)


def drawn(module: M, amount: float) -> M:
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for t in [*module.parameters(), *module.buffers()]:
            noise = torch.randn(t.shape, generator=generator) * amount
            # Matrices begin with random numbers of their own, vectors with zeros or ones.
            t.copy_(t + noise if t.ndim == 1 else noise)
    return module


def normal(*shape: int, scale: float = 1.0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape))) * scale


@CONFIGS
@pytest.mark.parametrize("amount", [0.2, 3.0])
def test_kda_steps(config: K3Config, amount: float) -> None:
    layer = drawn(KDA(config), amount)
    fast, exact = layer.fused(), copy.deepcopy(layer).double().fused()
    heads, width = config.num_attention_heads, config.linear_head_dim
    state = KDAState(normal(5, 3, 3 * heads * width), normal(5, heads, width, width))
    wanted = KDAState(*(part.double() for part in state))
    for x_BD in normal(6, 5, config.hidden_size):
        with torch.no_grad():
            got, want = fast.step(x_BD, state), exact.step_torch(x_BD.double(), wanted)
        torch.testing.assert_close(got.double(), want, atol=1e-5 * max(1.0, float(want.abs().max())), rtol=2e-4)
    for got, want in zip(state, wanted):
        torch.testing.assert_close(got.double(), want, atol=1e-5 * float(want.abs().max()), rtol=2e-4)


@CONFIGS
@pytest.mark.parametrize("amount", [0.2, 1.0])
def test_mla_steps(config: K3Config, amount: float) -> None:
    layer = drawn(MLA(config), amount)
    fast, exact = layer.fused(), copy.deepcopy(layer).double().fused()
    cache = normal(4, 40, config.kv_lora_rank + config.qk_rope_head_dim)
    wanted, lengths = cache.double(), np.array([0, 38, 17, 3])
    for x_BD in normal(2, 4, config.hidden_size):
        places, hidden = step_mask(lengths)
        with torch.no_grad():
            got = fast.step(x_BD, cache, places, hidden)
            want = exact.step_torch(x_BD.double(), wanted, places, hidden)
        torch.testing.assert_close(got.double(), want, atol=1e-4 * amount, rtol=1e-4)
        lengths = lengths + 1
    torch.testing.assert_close(cache.double(), wanted, atol=1e-5, rtol=1e-5)


@CONFIGS
@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("tokens", [1, 70])
def test_experts(config: K3Config, quantized: bool, tokens: int) -> None:
    layer = drawn(LatentMoE(config), 0.3)
    layer.rule = "floor" if quantized else None
    x_ND = normal(tokens, config.hidden_size)
    with torch.no_grad():
        fused = layer.fused()
        got, single = fused(x_ND), fused.compose(x_ND)
        want = copy.deepcopy(layer).double().fused().compose(x_ND.double())
    torch.testing.assert_close(got, single, atol=2e-5, rtol=1e-4)
    if not quantized:
        torch.testing.assert_close(got.double(), want, atol=2e-5, rtol=1e-4)

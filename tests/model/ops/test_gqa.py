"""One kernel for a whole decoding step equals single operations in float64, at the widths it knows and others."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ninefold.model.llama import Llama, LlamaConfig, LlamaDecoder, project
from ninefold.model.ops import native
from ninefold.model.ops.gqa import gqa_step, gqa_step_torch
from ninefold.model.ops.rope import rotations
from tests.model.test_k3 import spread

pytestmark = pytest.mark.skipif(not native.status().available, reason=native.status().detail)


def config(heads: int, shared: int, width: int, *, bias: bool, inner: int = 48) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=30,
        hidden_size=80,
        intermediate_size=inner,
        num_hidden_layers=3,
        num_attention_heads=heads,
        num_key_value_heads=shared,
        head_dim=width,
        qkv_bias=bias,
    )


CONFIGS = [
    config(4, 2, 32, bias=True),
    config(3, 1, 64, bias=False),
    config(4, 4, 8, bias=True, inner=208),
    config(6, 2, 24, bias=False),
]


@pytest.mark.parametrize("shape", CONFIGS)
@pytest.mark.parametrize("rows", [1, 3, 4, 9])
@pytest.mark.parametrize("scale", [0.2, 0.6])
def test_step(shape: LlamaConfig, rows: int, scale: float) -> None:
    """As near to float64 as PyTorch's float32 is."""
    torch.manual_seed(0)
    model = spread(Llama(shape), scale)
    decoder, twin = LlamaDecoder(model), LlamaDecoder(model.double())
    assert decoder._kernel is not None
    assert twin._kernel is None
    cache, single, exact = (d.new_cache(rows + 2, 20) for d in (decoder, decoder, twin))
    for layer, entries in cache.entries.items():
        entries.normal_(generator=torch.Generator().manual_seed(layer))
        single.entries[layer].copy_(entries)
        exact.entries[layer] = entries.double()
    for some in (cache, single, exact):
        some.lengths[:] = np.arange(rows + 2) % 7 * 2
    ids = torch.arange(rows) % 30
    for _ in range(3):
        ours, plain, expected = decoder.step(ids, cache), decoder.step_torch(ids, single), twin.step(ids, exact)
        for one, other, truth in zip(ours.features, plain.features, expected.features, strict=True):
            slack = 1e-5 * float(truth.abs().max())
            assert (one - truth).abs().max() <= 4 * (other - truth).abs().max() + slack
    for layer, entries in exact.entries.items():
        slack = 1e-5 * float(entries.abs().max())
        assert (cache.entries[layer] - entries).abs().max() <= 4 * (single.entries[layer] - entries).abs().max() + slack


@pytest.mark.parametrize("shape", CONFIGS)
@pytest.mark.parametrize("rows", [1, 3, 9, 17])
def test_step_in_bfloat16(shape: LlamaConfig, rows: int) -> None:
    """The kernel rounds where single operations round: no farther from them than a few of their sums that round otherwise."""
    torch.manual_seed(0)
    decoder = LlamaDecoder(spread(Llama(shape, products=torch.bfloat16), 0.2))
    assert decoder._kernel is not None
    cache, single = decoder.new_cache(rows + 2, 20), decoder.new_cache(rows + 2, 20)
    for layer, entries in cache.entries.items():
        entries.normal_(generator=torch.Generator().manual_seed(layer))
        single.entries[layer].copy_(entries)
    for some in (cache, single):
        some.lengths[:] = np.arange(rows + 2) % 7 * 2
    ids = torch.arange(rows) % 30
    for _ in range(3):
        ours, plain = decoder.step(ids, cache), decoder.step_torch(ids, single)
        for one, other in zip(ours.features, plain.features, strict=True):
            torch.testing.assert_close(one, other, rtol=0.02, atol=0.01 * float(other.abs().max()))
        one, other = decoder.logits(plain.final_TD), project(plain.final_TD, decoder._head_VD)
        torch.testing.assert_close(one, other, rtol=2**-7, atol=1e-5)


@pytest.mark.parametrize("shape", CONFIGS)
def test_attention_alone(shape: LlamaConfig) -> None:
    """What it mixes and what it leaves in the cache, against float64."""
    heads, shared, width = shape.num_attention_heads, shape.num_key_value_heads, shape.head_dim
    torch.manual_seed(0)
    qkv, cache = torch.randn(5, (heads + 2 * shared) * width), torch.randn(7, 9, 2 * shared * width)
    place = torch.tensor([0, 8, 3, 3, 5])
    exact, turn = cache.double(), rotations(place, width, 10_000.0)
    mixed = gqa_step(qkv, turn, cache, place, heads, shared)
    expected = gqa_step_torch(qkv.double(), turn, exact[:5], place, heads, shared)
    torch.testing.assert_close(mixed.double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(cache.double(), exact, rtol=1e-5, atol=1e-5)


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    torch.manual_seed(0)
    decoder = LlamaDecoder(spread(Llama(CONFIGS[0]), 0.3))
    together, alone = decoder.new_cache(5, 20), decoder.new_cache(5, 20)
    ids = torch.tensor([3, 4, 5, 6, 7])
    for place in range(4):
        final = decoder.step(ids + place, together).final_TD
        for row in range(5):
            own = decoder.new_cache(1, 20)
            for layer, entries in alone.entries.items():
                own.entries[layer].copy_(entries[row : row + 1])
            own.lengths[:] = alone.lengths[row]
            assert torch.equal(decoder.step(ids[row : row + 1] + place, own).final_TD[0], final[row])
            for layer, entries in own.entries.items():
                alone.entries[layer][row : row + 1] = entries
            alone.lengths[row] += 1

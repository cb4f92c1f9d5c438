"""What `model inspect` counts: the published totals, and small models against what they really hold."""

from __future__ import annotations

import pytest
import torch

from ninefold.core.layout import DocLayout
from ninefold.model.inspect import inspect, part_of
from ninefold.model.k3 import K3
from ninefold.model.presets import preset


def test_full_scale_counts_as_published() -> None:
    """Report: 2,779.48B without MTP, 2,809.6B with it, 104.19B active without the input embedding."""
    found = inspect(preset("k3"))
    assert round(found.total / 1e9, 2) == 2779.48
    assert round((found.total + found.mtp) / 1e9, 1) == 2809.6
    assert round(found.active / 1e9, 2) == 104.19
    assert (found.layers, found.kda_layers, found.mla_layers, found.attnres_sources) == (93, 69, 24, 9)
    assert found.vision / 401.16e6 == pytest.approx(1, abs=1e-3)
    assert found.kv_bytes_per_token == 24 * 576 * 2


@pytest.mark.parametrize(
    ("name", "low", "high"), [("nano", 0.3e6, 0.6e6), ("micro", 1.5e6, 2.6e6), ("mini", 9e6, 12e6), ("small", 90e6, 110e6)]
)
def test_presets_have_their_size(name: str, low: float, high: float) -> None:
    assert low < inspect(preset(name)).total < high


def test_parts_are_all_and_each_once() -> None:
    config = preset("tiny")
    model, found = K3(config), inspect(config)
    assert sum(part.total for part in found.parts.values()) == sum(p.numel() for p in model.parameters())
    assert found.total + found.mtp == sum(p.numel() for p in model.parameters())
    attention = [name for name, _ in model.named_parameters() if name.startswith("model.layers.3.self_attn.")]
    assert {part_of(name, config) for name in attention} == {"MLA"}
    assert part_of("model.layers.2.self_attn.o_proj.weight", config) == "KDA"


def test_active_parameters_are_those_that_a_token_touches() -> None:
    """By gradients: of one token's output, exactly the chosen experts and all other parts have any."""
    config = preset("tiny")
    model = K3(config, seed=1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(parameter.numel())) * 0.1)
    hidden = model(torch.tensor([3]), DocLayout.of([1]))
    model.logits(hidden.final_TD).square().sum().backward()
    experts = 0
    for name, parameter in model.named_parameters():
        if ".experts." in name and parameter.grad is not None:
            experts += int((parameter.grad.flatten(1).abs().amax(1) > 0).sum()) * parameter[0].numel()
    assert experts == inspect(config).parts["routed experts"].active


def test_memory_and_flops_follow_the_shape() -> None:
    found = inspect(preset("nano"))
    assert found.bytes_bf16 == 2 * (found.total + found.mtp)
    assert found.bytes_released < found.bytes_bf16
    assert found.flops(100) - found.flops(0) == 100 * found.flops_per_token_and_context
    assert found.flops(0) > 2 * found.active

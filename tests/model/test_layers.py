"""Whole layers against golden vectors and float64 twins written token by token."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from ninefold.core.layout import DocLayout
from ninefold.model.kda import KDA
from ninefold.model.mla import MLA
from ninefold.model.moe import LatentMoE
from ninefold.model.presets import preset
from tests.model.test_k3 import spread


def test_latent_moe_equals_the_vectors_with_gradients(golden: Path) -> None:
    case = load_file(golden / "moe" / "latent_moe.safetensors")
    shape = {"hidden_size": 12, "routed_expert_hidden_size": 6, "moe_intermediate_size": 8, "shared_intermediate_size": 8}
    layer = LatentMoE(preset("tiny").model_copy(update={**shape, "num_shared_experts": 2})).double()
    shared = layer.shared_experts
    parameters = {
        "W_router": (layer.gate.weight, case["W_router"], case["grad_W_router"]),
        "W_down": (layer.routed_expert_down_proj.weight, case["W_down"], case["grad_W_down"]),
        "W_up": (layer.routed_expert_up_proj.weight, case["W_up"], case["grad_W_up"]),
        "norm": (layer.routed_expert_norm.weight, case["norm_w"], case["grad_norm_w"]),
        "w1": (layer.experts.w1, case["e_gate"], case["grad_e_gate"]),
        "w3": (layer.experts.w3, case["e_up"], case["grad_e_up"]),
        "w2": (layer.experts.w2, case["e_down"], case["grad_e_down"]),
        "s_gate": (shared.gate_proj.weight, case["s_gate"].flatten(0, 1), case["grad_s_gate"].flatten(0, 1)),
        "s_up": (shared.up_proj.weight, case["s_up"].flatten(0, 1), case["grad_s_up"].flatten(0, 1)),
        "s_down": (shared.down_proj.weight, _beside(case["s_down"]), _beside(case["grad_s_down"])),
    }
    with torch.no_grad():
        for parameter, value, _ in parameters.values():
            parameter.copy_(value)
        layer.gate.e_score_correction_bias.copy_(case["bias"])
    x = case["x"].clone().requires_grad_()
    y = layer.fused()(x)
    torch.testing.assert_close(y, case["y"], atol=1e-10, rtol=1e-9)
    (y * case["w"]).sum().backward()
    torch.testing.assert_close(x.grad, case["grad_x"], atol=1e-9, rtol=1e-8)
    for parameter, _, gradient in parameters.values():
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-9, rtol=1e-8)


def _beside(down_SDF: Tensor) -> Tensor:
    """Shared experts' down-projections as one [D, S·F] matrix."""
    return down_SDF.transpose(0, 1).flatten(1)


def test_kda_layer_equals_its_recurrence() -> None:
    layer, d = spread(KDA(preset("tiny"))).double(), 32
    lengths = [9, 1, 20]
    x = torch.randn(30, d, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = layer(x, DocLayout.of(lengths))
    torch.testing.assert_close(y, torch.cat([kda_twin(layer, part) for part in x.split(lengths)]), atol=1e-9, rtol=1e-8)


def kda_twin(layer: KDA, x_TD: Tensor) -> Tensor:
    """Spec 01, KDA, one token and one head at a time."""
    heads, outputs, state = layer.heads, [], {}

    def convolved(projection: torch.nn.Module, weight: Tensor, t: int) -> Tensor:
        seen = projection(x_TD[: t + 1])[-4:]
        return F.silu((weight[:, 0, -len(seen) :].T * seen).sum(0)).view(heads, -1)

    for t, x_D in enumerate(x_TD):
        q, k = (convolved(p, c.weight, t) for p, c in ((layer.q_proj, layer.q_conv1d), (layer.k_proj, layer.k_conv1d)))
        v = convolved(layer.v_proj, layer.v_conv1d.weight, t)
        beta, z = layer.b_proj(x_D).sigmoid(), (layer.f_b_proj(layer.f_a_proj(x_D)) + layer.dt_bias).view(heads, -1)
        mixed = []
        for h in range(heads):
            q_K, k_K = (y * torch.rsqrt(y.square().sum() + 1e-6) for y in (q[h], k[h]))
            alpha = torch.exp(-5 * torch.sigmoid(layer.A_log[h].exp() * z[h]))
            decayed = alpha[:, None] * state.get(h, torch.zeros(len(k_K), v.shape[1], dtype=torch.float64))
            state[h] = decayed + beta[h] * torch.outer(k_K, v[h] - k_K @ decayed)
            mixed.append(F.rms_norm((q_K * len(q_K) ** -0.5) @ state[h], v.shape[1:], layer.o_norm.weight, 1e-5))
        outputs.append(layer.o_proj(layer.g_proj(x_D).sigmoid() * torch.cat(mixed)))
    return torch.stack(outputs)


def test_mla_layer_equals_full_attention_without_positions() -> None:
    layer = spread(MLA(preset("tiny"))).double()
    lengths = [7, 1, 12]
    x = torch.randn(20, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = layer(x, DocLayout.of(lengths))
    torch.testing.assert_close(y, torch.cat([mla_twin(layer, part) for part in x.split(lengths)]), atol=1e-9, rtol=1e-8)


def mla_twin(layer: MLA, x_TD: Tensor) -> Tensor:
    """Spec 01, Gated MLA, one token and one head at a time."""
    queries = layer.q_b_proj(layer.q_a_layernorm(layer.q_a_proj(x_TD))).unflatten(-1, (layer.heads, -1))
    latent, shared = layer.kv_a_proj_with_mqa(x_TD).split((layer.latent, layer.rope), -1)
    keys_values = layer.kv_b_proj(layer.kv_a_layernorm(latent)).unflatten(-1, (layer.heads, -1))
    outputs = []
    for t, x_D in enumerate(x_TD):
        mixed = []
        for h in range(layer.heads):
            keys = torch.cat([keys_values[: t + 1, h, : layer.nope], shared[: t + 1]], -1)
            weights = torch.softmax(keys @ queries[t, h] * (layer.nope + layer.rope) ** -0.5, 0)
            mixed.append(weights @ keys_values[: t + 1, h, layer.nope :])
        outputs.append(layer.o_proj(layer.g_proj(x_D).sigmoid() * torch.cat(mixed)))
    return torch.stack(outputs)

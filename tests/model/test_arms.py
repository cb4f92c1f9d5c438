"""Comparison arms: every flag trains, decodes as it computes packed, goes to disk and back, serves; new maths has a twin."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from ninefold.core.errors import UserError
from ninefold.core.layout import DocLayout
from ninefold.engine.native import NativeConfig, NativeEngine
from ninefold.engine.speculative import SpeculativeConfig, SpeculativeEngine
from ninefold.learn.optim.assign import assign, k3_rules
from ninefold.model.checkpoint import load_model, save_model
from ninefold.model.config import K3Config
from ninefold.model.decode import Decoder
from ninefold.model.draft import Draft
from ninefold.model.init import audit
from ninefold.model.inspect import inspect
from ninefold.model.k3 import K3
from ninefold.model.mla import MLA
from ninefold.model.ops.balance import sign_bias
from ninefold.model.ops.naive import situ_glu_naive
from ninefold.model.ops.rope import rotate_neighbours, rotations
from ninefold.model.ops.situ import situ_glu, weighted_situ_glu
from ninefold.model.presets import PRESETS, preset
from ninefold.model.weights import checksum
from tests.engine.test_native import STOP, ask, check, prompt, run
from tests.model.test_draft import spread_draft
from tests.model.test_k3 import draw_ids, spread

TINY = preset("tiny")
FLAGS = {
    "full Muon": {"muon_per_head": False},
    "SwiGLU": {"hidden_act": "silu"},
    "no AttnRes": {"attn_res_block_size": None},
    "sign": {"router_balance": "sign"},
    "no latent norm": {"latent_moe_use_norm": False},
    "no gate": {"mla_use_output_gate": False},
    "RoPE": {"mla_use_nope": False},
    "all MLA": {"full_attn_layers": (0, 1, 2, 3)},
}
CONFIGS = {name: TINY.model_copy(update=flags) for name, flags in FLAGS.items()} | {"k2": preset("k2-tiny")}
LENGTHS = [9, 1, 22]


@pytest.fixture(params=CONFIGS)
def config(request: pytest.FixtureRequest) -> K3Config:
    return CONFIGS[request.param]


def test_it_begins_as_declared_learns_everywhere_and_is_optimised_whole(config: K3Config) -> None:
    audit(K3(config), config)
    model, ids, layout = spread(K3(config)), draw_ids(32), DocLayout.of(LENGTHS)
    for quantized in (False, True):
        model.quantize(quantized)
        hidden = model(ids, layout)
        loss = model.logits(hidden.final_TD).logsumexp(-1).mean() + model.logits(model.mtp_hidden(hidden, ids, layout)).sum()
        loss.backward()
        unlearned = {n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()}
        assert all(n.startswith("model.layers.0.self_attention_res_") or ".experts." in n for n in unlearned)
        assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    assigned = assign(model.named_parameters(), k3_rules(config))
    heads = {a.rule.heads for a in assigned if a.name.endswith(("q_proj.weight", "q_b_proj.weight", "kv_b_proj.weight"))}
    assert heads == {config.num_attention_heads if config.muon_per_head else 1}


@pytest.mark.parametrize("quantized", [False, True])
def test_packed_extended_and_stepped_agree(config: K3Config, quantized: bool) -> None:
    model, ids = spread(K3(config)), draw_ids(sum(LENGTHS))
    model.quantize(quantized)
    with torch.no_grad():
        wanted = model(ids, DocLayout.of(LENGTHS)).final_TD.split(LENGTHS)
    decoder = Decoder(model)
    cache = decoder.new_cache(4, 32)
    long = ids[10:]
    extended = [
        decoder.extend(part, DocLayout.of([len(part)]), cache, np.array([0])).final_TD for part in long.split([5, 1, 13, 3])
    ]
    torch.testing.assert_close(torch.cat(extended), wanted[2], atol=1e-4, rtol=1e-4)
    again = decoder.new_cache(2, 32)
    decoder.extend(torch.cat([long[:8], ids[:3]]), DocLayout.of([8, 3]), again, np.array([0, 1]))
    for t in range(6):
        final = decoder.step(torch.stack([long[8 + t], ids[3 + t]]), again).final_TD
        torch.testing.assert_close(final, torch.stack([wanted[2][8 + t], wanted[0][3 + t]]), atol=1e-4, rtol=1e-4)


def test_the_engine_and_its_draft_say_what_the_trainer_says(config: K3Config) -> None:
    model = spread(K3(config.model_copy(update={"vocab_size": 64})), 0.2)
    plain = NativeEngine(model, stop_ids=(STOP,), config=NativeConfig(rows=4, capacity=64, prompts=2))
    fast = SpeculativeEngine(
        model, spread_draft(model), stop_ids=(STOP,), config=SpeculativeConfig(rows=4, capacity=64, prompts=2, proposals=2)
    )
    requests = [ask(n, prompt(3 + 4 * n, n) % 64, max_new=6) for n in range(3)]
    for engine in (plain, fast):
        done = run(engine, requests)
        for request in requests:
            check(model, request, done[request.id])


def test_an_unrolled_draft_proposes_as_it_decodes(config: K3Config) -> None:
    """Step by step with a cache whose places grow by one each, as the speculative engine does."""
    model = spread(K3(config))
    draft, ids, steps = spread_draft(model), draw_ids(12), 3
    layout = DocLayout.of([12])
    with torch.no_grad():
        features = model(ids, layout).features
        unrolled = draft.unroll(features, ids, layout, steps)
        fused, layer, t = draft.fused(), draft.fused().layer, 5
        width = config.kv_lora_rank + config.qk_rope_head_dim
        cache, places = torch.zeros(1, 16, width), torch.arange(t)
        x = layer.enter(fused.embed(ids[1 : t + 1]), fused.fuse(features)[:t])
        cache[0, :t] = layer.attention.entry(layer.attention_input(x), places)
        hidden = fused.fuse(features)[t : t + 1]
        for n in range(steps):
            x = layer.enter(fused.embed(ids[t + 1 + n : t + 2 + n]), hidden)
            place = torch.tensor([t + n])
            unseen = (torch.arange(t + n + 1) > place)[None]
            hidden = layer.leave(x + layer.attention.step(layer.attention_input(x), cache, place, unseen))
            torch.testing.assert_close(fused.logits(hidden)[0], unrolled[n][t], atol=1e-4, rtol=1e-4)


def test_it_goes_to_disk_and_back(config: K3Config, tmp_path: Path) -> None:
    model = spread(K3(config))
    model.quantize()
    save_model(model, tmp_path, packed=True)
    again = load_model(tmp_path)
    assert again.config == config
    ids, layout = draw_ids(32), DocLayout.of(LENGTHS)
    with torch.no_grad():
        assert torch.equal(again(ids, layout).final_TD, model(ids, layout).final_TD)
    save_model(again, tmp_path / "b", packed=True)
    assert (tmp_path / "b/model.safetensors").read_bytes() == (tmp_path / "model.safetensors").read_bytes()
    draft = Draft(model)
    draft.save(tmp_path / "draft.safetensors")
    assert checksum(Draft.open(tmp_path / "draft.safetensors", again).state_dict()) == checksum(draft.state_dict())


def test_inspect_counts_what_the_model_holds(config: K3Config) -> None:
    found, held = inspect(config), sum(p.numel() for p in K3(config).parameters())
    assert found.total + found.mtp == sum(part.total for part in found.parts.values()) == held
    assert ("attention residuals" in found.parts) == (config.attn_res_block_size is not None)
    assert found.training_flops(10) > 3 * found.flops(10)


@pytest.mark.parametrize("size", ["tiny", "nano", "micro", "mini", "small"])
def test_a_k2_arm_is_about_as_large_as_its_base(size: str) -> None:
    base, arm = inspect(preset(size)), inspect(preset(f"k2-{size}"))
    assert 0.93 < arm.total / base.total < 1.07
    assert (arm.kda_layers, arm.attnres_sources, arm.state_bytes_per_sequence) == (0, 1, 0)


def test_flops_are_those_of_the_products() -> None:
    """By hand for k2-tiny: its matrices, twice, and four multiply-adds for each head, channel and earlier token."""
    c = preset("k2-tiny", 256)
    d, h, q = c.hidden_size, c.num_attention_heads, c.qk_nope_head_dim + c.qk_rope_head_dim
    attention = d * c.q_lora_rank + c.q_lora_rank * (1 + h * q) + d * (c.kv_lora_rank + c.qk_rope_head_dim)
    attention += c.kv_lora_rank * (1 + h * (c.qk_nope_head_dim + c.v_head_dim)) + h * c.v_head_dim * d
    experts = 3 * c.num_experts_per_token * c.moe_intermediate_size * c.routed_expert_hidden_size
    moe = experts + c.num_experts * d + (2 * d + 1) * c.routed_expert_hidden_size + 3 * d * c.shared_intermediate_size
    layers = 4 * (attention + 2 * d) + 3 * moe + 3 * d * c.intermediate_size
    found = inspect(c)
    assert found.flops_per_token == 2 * (layers + d + d * c.vocab_size)
    assert found.flops_per_token_and_context == 4 * h * 2 * (q + c.v_head_dim)
    assert found.mtp_flops_per_token == 2 * (attention + moe + 2 * d + 2 * d * d + 3 * d + d * c.vocab_size)


def test_a_k2_configuration_is_public_where_it_can_be() -> None:
    public = preset("k2-nano").to_public()
    assert (public["mla_use_nope"], public["mla_use_output_gate"], public["hidden_act"]) == (False, False, "silu")
    assert public["attn_res_block_size"] is None
    assert public["ninefold"]["router_balance"] == "sign"
    assert K3Config.from_public(json.loads(json.dumps(public))) == preset("k2-nano")
    with pytest.raises(UserError, match="hidden_act"):
        K3Config.from_public(public | {"hidden_act": "gelu"})
    assert {f"k2-{size}" for size in ("tiny", "nano", "micro", "mini", "small")} <= PRESETS.keys()


def test_swiglu_is_situ_without_bounds() -> None:
    generator = torch.Generator().manual_seed(0)
    gate, up, weight = (torch.randn(*s, generator=generator, dtype=torch.float64) for s in ((5, 3, 8), (5, 3, 8), (5, 3)))
    weight[0] = 0
    leaves = [x.clone().requires_grad_() for x in (gate, up, weight)]
    y = weighted_situ_glu(*leaves, torch.inf, torch.inf)
    limit = situ_glu_naive(gate, up, 1e7, 1e7) * weight[..., None]
    torch.testing.assert_close(y.detach(), limit, rtol=1e-9, atol=1e-9)
    near = [x.clone().requires_grad_() for x in (gate, up, weight)]
    wanted = torch.autograd.grad((situ_glu_naive(near[0], near[1], 1e7, 1e7) * near[2][..., None]).sum(), near)
    for got, want in zip(torch.autograd.grad(y.sum(), leaves), wanted):
        torch.testing.assert_close(got[1:], want[1:], rtol=1e-9, atol=1e-9)
    single = situ_glu(gate.float(), up.float(), torch.inf, torch.inf).double()
    torch.testing.assert_close(single, situ_glu_naive(gate, up, 1e7, 1e7), rtol=1e-5, atol=1e-6)


def test_neighbours_are_turned_as_complex_numbers() -> None:
    x = torch.randn(7, 2, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    places = torch.tensor([0, 1, 2, 3, 50, 400, 900])
    got = rotate_neighbours(x, rotations(places, 6, 10_000.0))
    angle = places[:, None].double() * 10_000.0 ** (-torch.arange(0, 6, 2, dtype=torch.float64) / 6)
    turned = torch.view_as_complex(x.unflatten(-1, (3, 2))) * torch.polar(torch.ones_like(angle), angle)[:, None]
    torch.testing.assert_close(got, torch.view_as_real(turned).flatten(-2), atol=1e-3, rtol=1e-4)
    w = torch.randn(x.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    (mine,), (theirs,) = (
        torch.autograd.grad((y * w).sum(), x, retain_graph=True) for y in (got, torch.view_as_real(turned).flatten(-2))
    )
    torch.testing.assert_close(mine, theirs, atol=1e-3, rtol=1e-4)


def test_plain_mla_equals_attention_with_rotated_channels() -> None:
    """K2's layer in float64, one token and one head at a time, with gradients; places begin anew in every document."""
    layer = spread(MLA(CONFIGS["k2"])).double()
    lengths = [7, 1, 12]
    x = torch.randn(20, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    got = layer(x, DocLayout.of(lengths))
    want = torch.cat([plain_mla_twin(layer, part) for part in x.split(lengths)])
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)
    leaves = [x, *layer.parameters()]
    pairs = [torch.autograd.grad(y.square().sum(), leaves) for y in (got, want)]
    for mine, theirs in zip(*pairs, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-4, rtol=1e-4)


def plain_mla_twin(layer: MLA, x_TD: Tensor) -> Tensor:
    assert layer.theta is not None
    rate = layer.theta ** (-torch.arange(0, layer.rope, 2, dtype=torch.float64) / layer.rope)

    def turned(x_R: Tensor, place: int) -> Tensor:
        z = torch.view_as_complex(x_R.unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(z * torch.polar(torch.ones_like(rate), place * rate)).flatten()

    queries = layer.q_b_proj(layer.q_a_layernorm(layer.q_a_proj(x_TD))).unflatten(-1, (layer.heads, -1))
    latent, shared = layer.kv_a_proj_with_mqa(x_TD).split((layer.latent, layer.rope), -1)
    keys_values = layer.kv_b_proj(layer.kv_a_layernorm(latent)).unflatten(-1, (layer.heads, -1))
    outputs = []
    for t in range(len(x_TD)):
        mixed = []
        for h in range(layer.heads):
            query = torch.cat([queries[t, h, : layer.nope], turned(queries[t, h, layer.nope :], t)])
            keys = [torch.cat([keys_values[s, h, : layer.nope], turned(shared[s], s)]) for s in range(t + 1)]
            weights = torch.softmax(torch.stack(keys) @ query * (layer.nope + layer.rope) ** -0.5, 0)
            mixed.append(weights @ keys_values[: t + 1, h, layer.nope :])
        outputs.append(layer.o_proj(torch.cat(mixed)))
    return torch.stack(outputs)


def test_the_sign_rule_moves_each_bias_one_step_towards_the_mean_load() -> None:
    load = torch.tensor([5, 3, 0, 4])
    bias = torch.tensor([0.1, -0.2, 0.0, 0.3])
    moved = sign_bias(bias, load, 1e-3)
    twin = [b + 1e-3 * np.sign(3.0 - c) for b, c in zip(bias.double().tolist(), load.tolist())]
    torch.testing.assert_close(moved.double(), torch.tensor(twin, dtype=torch.float64), atol=1e-7, rtol=0)
    assert torch.equal(sign_bias(bias, torch.tensor([2, 2, 2, 2]), 1e-3), bias)


def test_the_sign_rule_does_not_see_how_tokens_are_split() -> None:
    """Over micro-batches and ranks: loads are summed as integers before their sign is taken."""
    ids = draw_ids(60)

    def model() -> K3:
        made = spread(K3(CONFIGS["sign"]))
        made.collect_routing()
        return made

    whole, split, first, second = model(), model(), model(), model()
    whole(ids, DocLayout.of([20, 40]))
    for part in ids.split([20, 40]):
        split(part, DocLayout.of([len(part)]))
    first(ids[:20], DocLayout.of([20]))
    second(ids[20:], DocLayout.of([40]))
    before = whole.state_dict()["model.layers.1.block_sparse_moe.gate.e_score_correction_bias"].clone()
    assert whole.balance() == split.balance()
    sent: list[Tensor] = []
    second.balance(reduce=lambda t: sent.append(t.clone()))
    first.balance(reduce=lambda t: t.add_(sent[0]))
    states = [torch.stack([moe.gate.e_score_correction_bias for moe in m.moe_layers().values()]) for m in (whole, split, first)]
    assert torch.equal(states[0], states[1])
    assert torch.equal(states[0], states[2])
    moved = states[0][0] - before
    assert moved.abs().max() == pytest.approx(CONFIGS["sign"].router_sign_step, rel=1e-3)

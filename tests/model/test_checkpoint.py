"""Checkpoints: public names, bit-exact both ways, packed experts computing the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from ninefold.core.errors import EngineError, UserError
from ninefold.core.layout import DocLayout
from ninefold.model.checkpoint import load_model, save_model
from ninefold.model.config import K3Config
from ninefold.model.k3 import K3
from ninefold.model.presets import PRESETS, preset
from ninefold.model.quant.mx import Rule
from ninefold.model.weights import Weights, checksum
from tests.model.test_k3 import draw_ids, spread
from tests.model.test_vision import SMALL


def test_round_trip_is_bit_exact(tmp_path: Path) -> None:
    model = spread(K3(preset("tiny")))
    model.quantize()
    save_model(model, tmp_path)
    again = load_model(tmp_path)
    assert again.config == model.config
    assert again.quantized
    assert checksum(again.state_dict()) == checksum(model.state_dict())


def test_packed_experts_compute_the_same_and_repack_to_the_same_file(tmp_path: Path) -> None:
    model = spread(K3(preset("tiny")))
    with pytest.raises(UserError, match="quantize"):
        save_model(model, tmp_path / "refused", packed=True)
    model.quantize()
    save_model(model, tmp_path / "a", packed=True)
    again = load_model(tmp_path / "a")
    ids, layout = draw_ids(50), DocLayout.of([20, 30])
    with torch.no_grad():
        logits = [m.logits(m(ids, layout).final_TD) for m in (model, again)]
        assert torch.equal(*logits)
    save_model(again, tmp_path / "b", packed=True)
    assert (tmp_path / "a/model.safetensors").read_bytes() == (tmp_path / "b/model.safetensors").read_bytes()


@pytest.mark.parametrize("rule", ["ceil", "even", "rceil"])
def test_other_rules_of_scaling_are_kept_with_the_model(rule: Rule, tmp_path: Path) -> None:
    model, ids, layout = spread(K3(preset("tiny"))), draw_ids(50), DocLayout.of([20, 30])
    outputs = {}
    for name in ("floor", rule):
        model.quantize(rule=name)
        with torch.no_grad():
            outputs[name] = model.logits(model(ids, layout).final_TD)
    save_model(model, tmp_path, packed=True)
    again = load_model(tmp_path)
    assert again.rule == rule
    with torch.no_grad():
        assert torch.equal(again.logits(again(ids, layout).final_TD), outputs[rule])
    assert not torch.equal(outputs["floor"], outputs[rule])


def test_names_and_configuration_are_the_public_ones(tmp_path: Path) -> None:
    model = K3(preset("tiny"))
    save_model(model, tmp_path)
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        names = set(file.keys())
    layer = "model.layers.1."
    kda = "q_proj k_proj v_proj q_conv1d k_conv1d v_conv1d f_a_proj f_b_proj b_proj g_proj o_norm o_proj"
    expected = {f"{layer}self_attn.{part}.weight" for part in kda.split()} | {
        f"{layer}self_attn.A_log",
        f"{layer}self_attn.dt_bias",
        f"{layer}self_attention_res_norm.weight",
        f"{layer}mlp_res_proj.weight",
        f"{layer}block_sparse_moe.gate.e_score_correction_bias",
        f"{layer}block_sparse_moe.experts.7.w2.weight",
        f"{layer}block_sparse_moe.shared_experts.gate_proj.weight",
        f"{layer}block_sparse_moe.routed_expert_norm.weight",
        "model.layers.0.mlp.down_proj.weight",
        "model.layers.3.self_attn.kv_a_proj_with_mqa.weight",
        "model.layers.4.eh_proj.weight",
        "model.output_attn_res_proj.weight",
        "model.embed_tokens.weight",
        "model.norm.weight",
        "lm_head.weight",
    }
    assert expected <= names
    public = json.loads((tmp_path / "config.json").read_text())
    assert public["linear_attn_config"]["full_attn_layers"] == [4]
    assert public["linear_attn_config"]["kda_layers"] == [1, 2, 3]


@pytest.mark.parametrize("name", PRESETS)
def test_public_configuration_round_trip(name: str) -> None:
    assert K3Config.from_public(json.loads(json.dumps(preset(name).to_public()))) == preset(name)


def test_shards_hold_the_same_as_one_file(tmp_path: Path) -> None:
    model = spread(K3(preset("tiny")))
    save_model(model, tmp_path, shard_bytes=100_000)
    shards = sorted(path.name for path in tmp_path.glob("model-*.safetensors"))
    assert len(shards) > 3
    assert shards[0] == f"model-00001-of-{len(shards):05}.safetensors"
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert set(index["weight_map"].values()) == set(shards)
    assert index["metadata"]["total_size"] == sum(t.nbytes for t in model.state_dict().values())
    assert checksum(load_model(tmp_path).state_dict()) == checksum(model.state_dict())
    (tmp_path / shards[1]).unlink()
    with pytest.raises(UserError, match=shards[1]):
        load_model(tmp_path)


def test_log_scales_are_padded_as_released(tmp_path: Path) -> None:
    wide = {"num_attention_heads": 96, "linear_head_dim": 16, "num_nextn_predict_layers": 0}
    model = spread(K3(preset("tiny").model_copy(update=wide)))
    save_model(model, tmp_path)
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        A_log = file.get_tensor("model.layers.0.self_attn.A_log")
    assert A_log.shape == (128,)
    assert not A_log[96:].any()
    assert checksum(load_model(tmp_path).state_dict()) == checksum(model.state_dict())


SEEING = preset("tiny").model_copy(
    update={
        "decay_rank": 16,
        "num_nextn_predict_layers": 0,
        "expert_initializer_range": 0.02,
        "vision": SMALL,
        "media_placeholder_token_id": 7,
    }
)


def released(folder: Path) -> K3:
    """A model laid out as Moonshot releases one: nested configuration, padded log-scales, flat taps, nothing of ours."""
    model = spread(K3(SEEING))
    model.quantize()
    save_model(model, folder, packed=True)
    public = json.loads((folder / "config.json").read_text())
    text = public["text_config"]
    del text["ninefold"], text["num_nextn_predict_layers"], public["quantization_aware"]
    text["linear_attn_config"]["gate_lower_bound"] = SEEING.gate_lower_bound
    text["quantization_config"] = {"quant_method": "compressed-tensors"}
    (folder / "config.json").write_text(json.dumps(public))
    tensors = load_file(folder / "model.safetensors")
    for name, tensor in tensors.items():
        if name.endswith("A_log"):
            tensors[name] = torch.cat([tensor, torch.zeros(30)])
        if "conv1d" in name:
            tensors[name] = tensor[:, 0].contiguous()
    save_file(tensors, folder / "model.safetensors")
    return model


def test_a_released_checkpoint_is_read(tmp_path: Path) -> None:
    model = released(tmp_path)
    again = load_model(tmp_path)
    assert again.config == SEEING
    assert again.quantized
    ids, layout = draw_ids(50), DocLayout.of([20, 30])
    ids[ids == 7] = 8
    ids[3:5] = 7
    pixels = torch.randn(8, 3, 3, 3, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        seen = [m(ids, layout, m.pictures(pixels, [(1, 2, 4)])).final_TD for m in (model, again)]
    assert torch.equal(*seen)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("language_model.lm_head.weight"), r"lacks lm_head\.weight"),
        (lambda t: t.update({"language_model.stray": torch.ones(1)}), "has the unknown stray"),
        (lambda t: t.update({"language_model.model.norm.weight": torch.ones(5)}), r"model\.norm\.weight is \(5,\)"),
        (lambda t: t["language_model.model.layers.0.self_attn.A_log"].fill_(1), "not zero"),
    ],
)
def test_a_checkpoint_that_does_not_fit_says_where(
    tmp_path: Path, change: Callable[[dict[str, torch.Tensor]], object], message: str
) -> None:
    released(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    change(tensors)
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match=message):
        load_model(tmp_path)


def test_a_configuration_of_something_else_is_refused() -> None:
    with pytest.raises(UserError, match="linear_attn_config"):
        K3Config.from_public({"model_type": "llama"})


def test_unknown_preset_and_missing_model_name_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="tiny, nano"):
        preset("giant")
    with pytest.raises(UserError, match="holds no model"):
        load_model(tmp_path)


def test_weights_arrive_whole_or_not_at_all() -> None:
    model, target = spread(K3(preset("tiny"))), K3(preset("tiny"))
    weights = Weights.of(model)
    before = checksum(target.state_dict())
    torn = Weights(
        tensors={**weights.tensors, "lm_head.weight": weights.tensors["lm_head.weight"] + 1}, checksum=weights.checksum
    )
    with pytest.raises(EngineError, match="checksum"):
        torn.load_into(target)
    with torch.no_grad():
        model.lm_head.weight[0, 0] = float("nan")
    with pytest.raises(EngineError, match=r"not finite: lm_head\.weight"):
        Weights.of(model).load_into(target)
    assert checksum(target.state_dict()) == before
    weights.load_into(target)
    assert checksum(target.state_dict()) == weights.checksum

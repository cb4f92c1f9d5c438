"""Losses against the conformance vectors: values and gradients."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from ninefold.learn.loss.advantage import advantages
from ninefold.learn.loss.distill import DistillConfig, sampled_objective, teacher_reward
from ninefold.learn.loss.lk import log_acceptance
from ninefold.learn.loss.policy import PolicyConfig, policy_objective
from ninefold.learn.loss.tokens import TokenLogprobs


def _objective_and_gradient(new_BT: Tensor, mask_BT: Tensor, config: PolicyConfig, **streams_BT: Tensor):
    leaf_BT = new_BT.clone().requires_grad_()
    tokens = TokenLogprobs(logprob_N=leaf_BT[mask_BT], streams={k: v[mask_BT] for k, v in streams_BT.items()})
    objective = sampled_objective if isinstance(config, DistillConfig) else policy_objective
    loss = objective(tokens, config)  # pyright: ignore[reportArgumentType]
    loss_mean = loss.total / loss.tokens
    loss_mean.backward()
    assert leaf_BT.grad is not None
    return loss_mean.detach(), leaf_BT.grad


def test_policy_objective_is_reading_a(golden: Path):
    v = load_file(golden / "rl" / "k25_objective.safetensors")
    meta = json.loads((golden / "rl" / "meta.json").read_text())
    low, high = meta["log_ratio_bounds"]
    advantage_B = torch.from_numpy(advantages(v["reward"].tolist(), v["group"].tolist())).double()
    torch.testing.assert_close(advantage_B, v["advantage"], rtol=1e-7, atol=0)
    loss, gradient = _objective_and_gradient(
        v["new_logprob"],
        v["mask"].bool(),
        PolicyConfig(low=low, high=high, tau=meta["tau"]),
        old_logprob=v["old_logprob"],
        advantage=v["advantage"][:, None].expand_as(v["mask"]),
    )
    name = meta["canonical"]
    torch.testing.assert_close(-loss, v[f"{name}.J"][0], rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(-gradient, v[f"{name}.grad_new_logprob"], rtol=1e-12, atol=1e-14)


def test_sampled_token_distillation(golden: Path):
    v = load_file(golden / "mopd" / "mopd.safetensors")
    rl = json.loads((golden / "rl" / "meta.json").read_text())
    bound = json.loads((golden / "mopd" / "meta.json").read_text())["R_max"]
    mask = v["mask"].bool()
    reward = teacher_reward(v["teacher_logprob"], v["student_logprob"], bound)
    torch.testing.assert_close(reward[mask], v["reward"][mask])
    low, high = rl["log_ratio_bounds"]
    loss, gradient = _objective_and_gradient(
        v["student_logprob"],
        mask,
        DistillConfig(low=low, high=high, tau=rl["tau"], r_max=bound),
        old_logprob=v["old_logprob"],
        teacher_logprob=v["teacher_logprob"],
    )
    torch.testing.assert_close(loss, v["k25_loss"][0], rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(gradient, v["k25_grad"], rtol=1e-12, atol=1e-14)


def test_log_acceptance(golden: Path):
    v = load_file(golden / "spec" / "lk.safetensors")
    torch.testing.assert_close(-log_acceptance(v["p_logits"], v["q_logits"]), v["lk"], rtol=1e-12, atol=1e-12)
    draft_NV = v["q_logits"].clone().requires_grad_()
    rows = torch.tensor([0, 2, 3, 4, 5])
    (-log_acceptance(v["p_logits"], draft_NV)[rows].mean()).backward()
    torch.testing.assert_close(draft_NV.grad, v["grad_q_logits_mean_rows_0_2_5"], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_log_acceptance_of_disjoint_distributions_is_finite(dtype: torch.dtype):
    target_NV = torch.tensor([[200.0, 0.0, -200.0]], dtype=dtype)
    draft_NV = torch.tensor([[-200.0, 0.0, 200.0]], dtype=dtype, requires_grad=True)
    loss = -log_acceptance(target_NV, draft_NV).sum()
    loss.backward()
    assert draft_NV.grad is not None
    assert np.isfinite(loss.item())
    assert torch.isfinite(draft_NV.grad).all()
    assert draft_NV.grad.abs().max() > 0.1

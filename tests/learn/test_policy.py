"""Advantages, the policy objective and its edges, distillation's divergences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor

from ninefold.core.errors import UserError
from ninefold.learn.loss.advantage import advantages
from ninefold.learn.loss.distill import reverse_kl
from ninefold.learn.loss.outcome import Mean, add_metrics
from ninefold.learn.loss.policy import PolicyConfig, policy_objective
from ninefold.learn.loss.tokens import TokenLogprobs

REWARD = st.floats(-1, 1, width=32)


@given(st.lists(st.tuples(REWARD, st.integers(0, 3)), min_size=1, max_size=24))
def test_advantages_of_a_group_sum_to_zero_and_keep_order(pairs: list[tuple[float, int]]):
    rewards, groups = [r for r, _ in pairs], [g for _, g in pairs]
    advantage = advantages(rewards, groups)
    for group in set(groups):
        mine = [i for i, g in enumerate(groups) if g == group]
        assert abs(advantage[mine].sum()) < 1e-5
        for i in mine:
            for j in mine:
                assert not (rewards[i] > rewards[j] and advantage[i] < advantage[j])


def test_one_loser_of_eight_keeps_its_advantage():
    advantage = advantages([0.0] + [0.95] * 7, ["g"] * 8)
    np.testing.assert_allclose(advantage, [-0.83125] + [0.11875] * 7, rtol=1e-6)


@pytest.mark.parametrize("reward", [0.95, 1 / 3, -1.0, 0.1 + 0.2])
def test_a_group_of_equal_rewards_is_exactly_zero(reward: float):
    assert (advantages([reward] * 7, [0] * 7) == 0).all()
    assert (advantages([reward], ["alone"]) == 0).all()


def test_groups_are_not_mixed_and_may_lie_apart():
    advantage = advantages([1, 5, 0, 5], ["a", "b", "a", "b"])
    np.testing.assert_array_equal(advantage, [0.5, 0, -0.5, 0])
    assert len(advantages([], [])) == 0


@pytest.mark.parametrize("reward", [np.nan, np.inf, -np.inf])
def test_a_reward_that_is_no_number_is_refused(reward: float):
    with pytest.raises(UserError, match="invalid"):
        advantages([0.0, reward], [0, 0])


def _policy(logprob: Tensor, old: Tensor, advantage: Tensor, config: PolicyConfig):
    leaf_N = logprob.clone().requires_grad_()
    loss = policy_objective(TokenLogprobs(logprob_N=leaf_N, streams={"old_logprob": old, "advantage": advantage}), config)
    loss.total.backward()
    return loss, leaf_N.grad


@given(st.lists(st.tuples(st.floats(-2, 2), st.floats(-2, 2)), min_size=1, max_size=9))
def test_gradient_is_the_closed_form(pairs: list[tuple[float, float]]):
    rho, advantage = (torch.tensor([p[i] for p in pairs], dtype=torch.float64) for i in (0, 1))
    config = PolicyConfig(low=-0.3, high=0.5, tau=0.07)
    old = torch.full_like(rho, -1.5)
    _, gradient = _policy(old + rho, old, advantage, config)
    rho = (old + rho) - old
    inside = (rho >= -0.3) & (rho <= 0.5)
    torch.testing.assert_close(gradient, 2 * 0.07 * rho - inside * rho.exp() * advantage)


def test_far_ratios_give_finite_gradients():
    logprob = torch.tensor([-1.0, -500.0, -2.0])
    loss, gradient = _policy(logprob, torch.tensor([-900.0, -1.0, -2.0]), torch.tensor([1.0, -1.0, 2.0]), PolicyConfig())
    assert torch.isfinite(loss.total)
    assert gradient is not None
    assert torch.isfinite(gradient).all()
    assert gradient[2] == -2.0
    assert loss.metrics["policy/outside_share"].value == pytest.approx(2 / 3)


def test_on_policy_the_mask_and_the_pull_do_nothing():
    logprob = torch.tensor([-1.0, -2.0])
    loss, gradient = _policy(logprob, logprob, torch.tensor([0.5, -0.25]), PolicyConfig(tau=0.1))
    torch.testing.assert_close(gradient, torch.tensor([-0.5, 0.25]))
    assert loss.metrics["policy/pull"].value == 0
    assert loss.metrics["policy/outside_share"].value == 0


def test_a_non_finite_input_is_seen_in_the_loss():
    loss, _ = _policy(torch.tensor([-1.0, -2.0]), torch.tensor([-1.0, torch.nan]), torch.ones(2), PolicyConfig())
    assert not torch.isfinite(loss.total)


def test_bounds_on_the_wrong_side_are_refused():
    with pytest.raises(ValidationError):
        PolicyConfig(low=0.1)
    with pytest.raises(ValidationError):
        PolicyConfig(tau=-1)


def test_metrics_add_like_the_whole():
    x = torch.randn(10, dtype=torch.float64)
    parts = add_metrics([{"x": Mean.of(x[:3])}, {"x": Mean.of(x[3:]), "y": Mean.of(x > 0)}])
    assert parts["x"].value == pytest.approx(x.mean().item())
    assert parts["y"].value == pytest.approx((x > 0).double().mean().item())
    assert Mean.of(x[:0]).value == 0


@given(st.integers(0, 2**31), st.integers(2, 12), st.floats(0.1, 2))
def test_reverse_kl_is_a_divergence(seed: int, vocabulary: int, scale: float):
    rng = torch.Generator().manual_seed(seed)
    student, teacher = (torch.randn(4, vocabulary, generator=rng, dtype=torch.float64) * scale for _ in range(2))
    full = reverse_kl(student, teacher)
    p, q = student.softmax(-1), teacher.softmax(-1)
    torch.testing.assert_close(full, (p * (p.log() - q.log())).sum(-1), rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(reverse_kl(student, student + 3), torch.zeros(4, dtype=torch.float64), rtol=0, atol=1e-12)
    assert (full >= -1e-9).all()


def test_reverse_kl_gradient_at_extreme_logits_is_finite():
    student = torch.tensor([[1e4, -1e4, 0.0]], requires_grad=True)
    reverse_kl(student, torch.tensor([[-1e4, 1e4, 0.0]])).sum().backward()
    assert student.grad is not None
    assert torch.isfinite(student.grad).all()


def test_teachers_of_another_vocabulary_are_refused():
    with pytest.raises(UserError, match="tokenizer"):
        reverse_kl(torch.zeros(2, 5), torch.zeros(2, 6))

"""The policy objective of Kimi K2.5, which K3 follows: a two-sided gradient mask on the ratio, a pull on every token."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from ninefold.core.config import Config
from ninefold.core.types import Batch
from ninefold.learn.loss.outcome import LanguageModel, Loss, Mean
from ninefold.learn.loss.tokens import TokenLogprobs, token_logprobs


class PolicyConfig(Config):
    """Bounds and pull of the policy objective."""

    low: float = Field(default=-0.3, le=0)
    """Lower bound of the log-ratio ρ inside which the policy gradient passes, in nats."""
    high: float = Field(default=0.3, ge=0)
    """Upper bound of ρ, in nats."""
    tau: float = Field(default=0.01, ge=0)
    """Weight τ of the pull ρ² towards the policy that sampled the token."""


def policy_objective(tokens: TokenLogprobs, config: PolicyConfig) -> Loss:
    """−Σ [ 1(low ≤ ρ ≤ high) · exp ρ · A − τ ρ² ] with ρ = ln π_θ − ln π_old, π_old the policy that sampled the token.

    Reads the streams `advantage` and `old_logprob`. Unlike PPO's, the mask ignores the advantage's sign; the pull holds for
    every token, masked ones too. ρ is taken against the stored log-probability on every pass, never cached.
    Source: K2.5's policy objective; the bounds are those of the log-ratio, as its text has it, not of the ratio as printed.
    """
    return advantage_objective(tokens, tokens.stream("advantage"), config)


def advantage_objective(tokens: TokenLogprobs, advantage_N: Tensor, config: PolicyConfig) -> Loss:
    """The same with the advantages given, [N]; they get no gradient."""
    advantage_N = advantage_N.detach()
    rho_N = tokens.logprob_N - tokens.stream("old_logprob")
    inside_N = (rho_N >= config.low) & (rho_N <= config.high)
    # Outside, exp ρ may overflow, and 0 · inf would put NaN into the gradient: select before the exponential.
    ratio_N = torch.where(inside_N, rho_N, 0.0).exp()
    gain_N = torch.where(inside_N, ratio_N * advantage_N, 0.0)
    pull_N = config.tau * rho_N.square()
    metrics = {
        "policy/objective": Mean.of(gain_N - pull_N),
        "policy/pull": Mean.of(pull_N),
        "policy/outside_share": Mean.of(~inside_N),
        "policy/rho": Mean.of(rho_N),
        "policy/rho_abs": Mean.of(rho_N.abs()),
        "policy/ratio": Mean.of(rho_N.clamp(-20, 20).exp()),
        "policy/advantage_abs": Mean.of(advantage_N.abs()),
    }
    if tokens.entropy_N is not None:
        metrics["policy/entropy"] = Mean.of(tokens.entropy_N)
    return Loss(total=(pull_N - gain_N).sum(), tokens=rho_N.numel(), metrics=metrics)


def policy_loss(model: LanguageModel, batch: Batch, config: PolicyConfig) -> Loss:
    """The objective on a packed batch whose samples carry `advantage` and `old_logprob`."""
    return policy_objective(token_logprobs(model, batch, entropy=True), config)

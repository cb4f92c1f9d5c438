"""Stable LatentMoE (spec 01): routed experts in a narrow latent, shared experts beside them.

Shapes: N tokens, D hidden, E experts, k active, L latent, F inner width of an expert.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isinf

import torch
from torch import Tensor, nn

from ninefold.model.config import K3Config
from ninefold.model.mlp import MLP
from ninefold.model.norm import RMSNorm, rms_norm
from ninefold.model.ops import native
from ninefold.model.ops.layer import MoEWeights, moe_layer
from ninefold.model.ops.moe import experts, route
from ninefold.model.ops.product import product
from ninefold.model.ops.situ import situ_glu
from ninefold.model.quant.mx import MXFP4, MXFP8, Rule, fake_quant
from ninefold.model.routing import RoutingCounts, making_again


@dataclass(frozen=True, kw_only=True)
class FusedMoE:
    """The layer as it computes: one product reads the input, one writes the output."""

    router_ED: Tensor
    bias_E: Tensor
    top_k: int
    input_ID: Tensor
    """Rows: latent down-projection, shared gate, shared up."""
    w1_EFL: Tensor
    """Gate; the three are quantised already where asked for."""
    w3_EFL: Tensor
    """Up."""
    w2_ELF: Tensor
    """Down."""
    norm_L: Tensor | None
    """None where the latent goes up as it is."""
    output: Tensor
    """[D, L + shared inner]: latent up-projection beside the shared down-projection."""
    beta_gate: float
    beta_up: float
    eps: float
    rule: Rule | None
    """Of the scales, where weights and inputs of the experts are quantised."""
    counts: RoutingCounts | None
    """Sees the routing of each forward."""

    def __call__(self, x_ND: Tensor) -> Tensor:
        """[N, D] → [N, D]"""
        if self.counts is None and not torch.is_grad_enabled() and self._kernel is not None and native.usable(x_ND):
            mixed_NO = moe_layer(product(x_ND, self.input_ID), product(x_ND, self.router_ED), self._kernel)
            return product(mixed_NO, self.output)
        return self.compose(x_ND)

    def compose(self, x_ND: Tensor) -> Tensor:
        """The layer from the single operations, with gradients; the router computes in fp32 at least."""
        wide = torch.promote_types(x_ND.dtype, torch.float32)
        scores_NE = torch.sigmoid(product(x_ND.to(wide), self.router_ED.to(wide)))
        index_Nk, weight_Nk, cutoff_N = route(scores_NE, self.bias_E, self.top_k)
        if self.counts is not None:
            self.counts.add(scores_NE.detach(), cutoff_N.detach(), index_Nk)
        latent = self.w1_EFL.shape[2]
        shared = self.output.shape[1] - latent
        z_NL, gate, up = product(x_ND, self.input_ID).split((latent, shared, shared), -1)
        if self.rule is not None:
            z_NL = fake_quant(z_NL, MXFP8, self.rule)
        bank = (self.w1_EFL, self.w3_EFL, self.w2_ELF)
        u_NL = experts(z_NL, index_Nk, weight_Nk.to(x_ND.dtype), *bank, self.beta_gate, self.beta_up)
        inner = situ_glu(gate, up, self.beta_gate, self.beta_up)
        normed_NL = u_NL if self.norm_L is None else rms_norm(u_NL, self.norm_L, self.eps)
        return product(torch.cat([normed_NL, inner], -1), self.output)

    @cached_property
    def _kernel(self) -> MoEWeights | None:
        """None for shapes that the kernel does not take, for SwiGLU, without the norm, and for other rules than floor."""
        if self.norm_L is None or isinf(self.beta_gate) or self.rule not in (None, "floor"):
            return None
        weights = MoEWeights(
            bias_E=self.bias_E,
            w1_ELF=self.w1_EFL.transpose(1, 2).contiguous(),
            w3_ELF=self.w3_EFL.transpose(1, 2).contiguous(),
            w2_EFL=self.w2_ELF.transpose(1, 2).contiguous(),
            norm_L=self.norm_L,
            top_k=self.top_k,
            quantized=self.rule is not None,
            beta_gate=self.beta_gate,
            beta_up=self.beta_up,
            eps=self.eps,
        )
        return weights if weights.fits else None


class Router(nn.Module):
    """The scores' weight, and the selection bias: a buffer that only balancing moves."""

    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(experts, width))
        self.e_score_correction_bias: Tensor
        self.register_buffer("e_score_correction_bias", torch.zeros(experts))


class Experts(nn.Module):
    """All routed experts, stacked; checkpoints hold them one by one."""

    def __init__(self, experts: int, inner: int, latent: int) -> None:
        super().__init__()
        self.w1 = nn.Parameter(torch.zeros(experts, inner, latent))
        self.w3 = nn.Parameter(torch.zeros(experts, inner, latent))
        self.w2 = nn.Parameter(torch.zeros(experts, latent, inner))


class LatentMoE(nn.Module):
    """The parameters under their public names (`experts` apart, which is stacked)."""

    def __init__(self, config: K3Config) -> None:
        super().__init__()
        d, latent = config.hidden_size, config.routed_expert_hidden_size
        self.top_k, self.eps = config.num_experts_per_token, config.rms_norm_eps
        shared = config.num_shared_experts * config.shared_intermediate_size
        self.gate = Router(d, config.num_experts)
        self.experts = Experts(config.num_experts, config.moe_intermediate_size, latent)
        self.shared_experts = MLP(d, shared, *config.activation_bounds)
        self.routed_expert_down_proj = nn.Linear(d, latent, bias=False)
        self.routed_expert_norm = RMSNorm(latent, config.rms_norm_eps) if config.latent_moe_use_norm else None
        self.routed_expert_up_proj = nn.Linear(latent, d, bias=False)
        self.by_quantile, self.sign_step = config.router_balance == "quantile", config.router_sign_step
        self.rule: Rule | None = None
        """Of the scales of MXFP4 routed weights and MXFP8 inputs to them, straight-through (spec 03); None: not quantised."""
        self.counts: RoutingCounts | None = None
        """Collects the routing for the next bias; forwards that record no gradient, or are made again, do not count."""

    def fresh_counts(self) -> RoutingCounts:
        """Empty counts for a step that is routed with the bias as it stands."""
        return RoutingCounts.fresh(self.gate.e_score_correction_bias, margins=self.by_quantile)

    def fused(self) -> FusedMoE:
        """The layer ready to compute; gradients flow back to the parameters."""
        bank = (self.experts.w1, self.experts.w3, self.experts.w2)
        w1, w3, w2 = bank if self.rule is None else (fake_quant(w, MXFP4, self.rule) for w in bank)
        shared = self.shared_experts.fused()
        return FusedMoE(
            router_ED=self.gate.weight,
            bias_E=self.gate.e_score_correction_bias,
            top_k=self.top_k,
            input_ID=torch.cat([self.routed_expert_down_proj.weight, shared.gate_up]),
            w1_EFL=w1,
            w3_EFL=w3,
            w2_ELF=w2,
            norm_L=None if self.routed_expert_norm is None else self.routed_expert_norm.weight,
            output=torch.cat([self.routed_expert_up_proj.weight, shared.down], 1),
            beta_gate=shared.beta_gate,
            beta_up=shared.beta_up,
            eps=self.eps,
            rule=self.rule,
            counts=self.counts if torch.is_grad_enabled() and not making_again() else None,
        )

    def forward(self, x_ND: Tensor) -> Tensor:
        """[N, D] → [N, D]"""
        return self.fused()(x_ND)

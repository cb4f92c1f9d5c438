"""What a configuration holds and costs, without allocating it: parameters by part, memory, caches, FLOPs (spec 01)."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import torch
from torch import nn

from ninefold.model.config import K3Config
from ninefold.model.k3 import K3

PARTS = (
    ("vision tower", r"^vision_tower\."),
    ("vision projector", r"^mm_projector\."),
    ("embedding", r"embed_tokens\."),
    ("head", r"lm_head\."),
    ("MTP layer", r"mtp\."),
    ("attention residuals", r"res_(norm|proj)\."),
    ("KDA", r"self_attn\.(q_proj|k_proj|v_proj|[qkv]_conv1d|f_[ab]_proj|b_proj|A_log|dt_bias|o_norm)"),
    ("MLA", r"self_attn\.(q_a|q_b|kv_a|kv_b)"),
    ("routed experts", r"\.experts\."),
    ("shared experts", r"shared_experts\."),
    ("router", r"block_sparse_moe\.gate\."),
    ("latent projections", r"routed_expert_(down_proj|norm|up_proj)\."),
    ("dense MLP", r"\.mlp\."),
    ("norms", r"(layernorm|norm)\."),
)
"""Part → the parameters that belong to it, the first match; `g_proj` and `o_proj` go to their layer's attention."""
BYTES = {"bf16": 2.0, "mxfp4": 4.25 / 8}
"""Bytes a parameter; MXFP4 shares an 8-bit scale among 32."""
STATE_BYTES = 4
"""The recurrent state is kept in fp32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Parameters of one part of the model."""

    total: int
    active: int
    """That one token uses: of the routed experts k of E, of embedding and MTP layer none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """Counted as the report counts: text without the MTP layer and vision; active without the input embedding."""

    parts: dict[str, Part]
    total: int
    active: int
    mtp: int
    vision: int
    """The tower, with its position table, without the projector."""
    layers: int
    kda_layers: int
    mla_layers: int
    attnres_sources: int
    """The embedding and each block; 1 is a plain residual stream."""
    bytes_bf16: int
    """All weights in bf16, MTP layer and vision too."""
    bytes_released: int
    """Routed experts in MXFP4, all else in bf16."""
    kv_bytes_per_token: int
    """Latent and shared key channels of every MLA layer, bf16."""
    state_bytes_per_sequence: int
    """KDA states in fp32 and the convolutions' last inputs in bf16; the same at every length."""
    flops_per_token: int
    """Forward, without attention over earlier tokens: two for each active parameter, the KDA recurrence, and AttnRes."""
    flops_per_token_and_context: int
    """Forward, of the MLA layers for each earlier token, in the expanded form of training and prefill."""
    mtp_flops_per_token: int
    """Forward, of the MTP layer and its use of the head; none without one."""
    mtp_flops_per_token_and_context: int
    """Forward, of the MTP layer for each earlier token."""

    def flops(self, context: int) -> int:
        """Forward FLOPs of one token behind `context` others."""
        return self.flops_per_token + context * self.flops_per_token_and_context

    def training_flops(self, context: float) -> float:
        """FLOPs of one pre-training token behind `context` others on average: forward, twice that backward, MTP layer too."""
        fixed = self.flops_per_token + self.mtp_flops_per_token
        return 3 * (fixed + context * (self.flops_per_token_and_context + self.mtp_flops_per_token_and_context))


def inspect(config: K3Config) -> Inspection:
    """Count on the meta device; nothing is allocated, whatever the size."""
    with torch.device("meta"):
        model = K3(config)
    return count(model)


def count(model: K3) -> Inspection:
    config = model.config
    totals: Counter[str] = Counter()
    for name, parameter in model.named_parameters():
        totals[part_of(name, config)] += parameter.numel()
    apart = {"vision tower", "vision projector", "MTP layer"}
    idle = {"embedding", *apart}
    share = {"routed experts": (config.num_experts_per_token, config.num_experts)}
    parts: dict[str, Part] = {}
    for name, _ in PARTS:
        used, of = share.get(name, (1, 1))
        if totals[name]:
            parts[name] = Part(total=totals[name], active=0 if name in idle else totals[name] * used // of)
    mla = len(config.full_attn_layers)
    kda = config.num_hidden_layers - mla
    heads, width = config.num_attention_heads, config.linear_head_dim
    active = sum(part.active for part in parts.values())
    routed = totals["routed experts"] + _routed(model.mtp)
    everything = totals.total()
    state = heads * width * width * STATE_BYTES
    attention = heads * 2 * (config.qk_nope_head_dim + config.qk_rope_head_dim + config.v_head_dim)
    mtp_used = (
        totals["MTP layer"] - _routed(model.mtp) * (config.num_experts - config.num_experts_per_token) // config.num_experts
    )
    taps = (config.short_conv_kernel_size - 1) * 3 * heads * width
    return Inspection(
        parts=parts,
        total=everything - sum(totals[name] for name in apart),
        active=active,
        mtp=totals["MTP layer"],
        vision=totals["vision tower"],
        layers=config.num_hidden_layers,
        kda_layers=kda,
        mla_layers=mla,
        attnres_sources=config.residual_sources,
        bytes_bf16=round(everything * BYTES["bf16"]),
        bytes_released=round((everything - routed) * BYTES["bf16"] + routed * BYTES["mxfp4"]),
        kv_bytes_per_token=round(mla * (config.kv_lora_rank + config.qk_rope_head_dim) * BYTES["bf16"]),
        state_bytes_per_sequence=round(kda * (state + taps * BYTES["bf16"])),
        # Decay, read, write and query of the state: 1 + 2 + 2 + 2 for each of its entries.
        flops_per_token=2 * active + kda * heads * 7 * width * width + _mixing(config),
        flops_per_token_and_context=mla * attention,
        mtp_flops_per_token=2 * (mtp_used + totals["head"]) if model.mtp else 0,
        mtp_flops_per_token_and_context=attention if model.mtp else 0,
    )


def _mixing(config: K3Config) -> int:
    """FLOPs of AttnRes for one token: two for each channel of each source to score it, two to mix it, at every site."""
    if config.attn_res_block_size is None:
        return 0
    sites = [config.residual_sources]
    for n in range(config.num_hidden_layers):
        finished = 1 + n // config.attn_res_block_size
        sites += [finished + (n % config.attn_res_block_size > 0), finished + 1]
    return sum(4 * config.hidden_size * sources for sources in sites if sources > 1)


def part_of(name: str, config: K3Config) -> str:
    """The part that the parameter `name` belongs to."""
    if found := re.search(r"layers\.(\d+)\.self_attn\.(g_proj|o_proj)\.", name):
        return "MLA" if config.is_full_attention(int(found[1])) else "KDA"
    return next(part for part, pattern in PARTS if re.search(pattern, name))


def _routed(module: nn.Module | None) -> int:
    named = module.named_parameters() if module is not None else ()
    return sum(parameter.numel() for name, parameter in named if ".experts." in f".{name}")

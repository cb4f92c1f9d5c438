"""Shape of a K3 model and its arms, in the field names of the public `config.json` where it has one."""

from __future__ import annotations

from math import inf
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from ninefold.core.config import Config, faults
from ninefold.core.errors import UserError
from ninefold.model.vision import VisionConfig


class K3Config(Config):
    """Everything that fixes the parameters of a model, what they compute, and how their kind is trained.

    The defaults are K3's; what departs from them is for comparison (report, ablations and the K2 arm).
    """

    vocab_size: int
    hidden_size: int
    """d"""
    num_hidden_layers: int
    full_attn_layers: tuple[int, ...]
    """0-indexed layers with MLA; all others are KDA. The public file counts from 1."""
    num_attention_heads: int
    """H, of KDA and MLA alike."""

    linear_head_dim: int
    """Key and value width of a KDA head."""
    short_conv_kernel_size: int = 4
    decay_rank: int
    """Width of the low-rank decay projection."""

    q_lora_rank: int
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    """Key channels shared by the heads."""
    v_head_dim: int
    mla_use_nope: bool = True
    """The shared channels stay as they are; else they are rotated by the token's place in its document (RoPE), as in K2."""
    rope_theta: float = Field(default=10_000.0, gt=1)
    """Base of the rotation's angles; read only without `mla_use_nope`."""
    mla_use_output_gate: bool = True

    intermediate_size: int
    """Width of the dense MLPs."""
    first_k_dense_replace: int = 1
    """The first so many layers have a dense MLP instead of experts."""
    num_experts: int
    """E"""
    num_experts_per_token: int
    """k"""
    moe_intermediate_size: int
    """Width F of one routed expert."""
    routed_expert_hidden_size: int
    """Latent width ℓ that the routed experts work in."""
    num_shared_experts: int = 1
    shared_intermediate_size: int
    """Width of one shared expert."""
    latent_moe_use_norm: bool = True
    """RMSNorm before the latent up-projection."""
    hidden_act: Literal["situ", "silu"] = "situ"
    """Of every MLP: SiTU-GLU, or SwiGLU, which is its limit at infinite bounds."""
    activation_situ_beta: float = 4.0
    activation_situ_linear_beta: float = 25.0

    attn_res_block_size: int | None
    """Layers of one AttnRes block; none for a plain pre-norm residual stream."""
    num_nextn_predict_layers: int = 1
    """MTP layers: 0 or 1."""
    rms_norm_eps: float = 1e-5
    initializer_range: float = 0.02
    expert_initializer_range: float = 0.02
    """Routed experts live in the narrow latent; nano models start them larger."""
    router_balance: Literal["quantile", "sign"] = "quantile"
    """How router biases move: Quantile Balancing, or by the sign of each expert's shortfall (auxiliary-loss-free, K2)."""
    router_sign_step: float = Field(default=1e-3, gt=0)
    """γ of the sign rule: how far a bias moves in one optimiser step."""
    muon_per_head: bool = True
    """Muon orthogonalises each head's part of a projection on its own; else whole matrices."""
    gate_lower_bound: float = -5.0
    """g_min: the smallest log-decay of a KDA channel in one token."""
    vision: VisionConfig | None = None
    """Tower and projector of a model that reads pictures."""
    media_placeholder_token_id: int | None = None
    """The id that stands where a picture's tokens go; with `vision` only."""

    @model_validator(mode="after")
    def _consistent(self) -> K3Config:
        assert all(0 <= n < self.num_hidden_layers for n in self.full_attn_layers), "full_attn_layers lie outside the model"
        assert self.num_experts_per_token < self.num_experts, "Top-(k+1) routing needs more experts than num_experts_per_token"
        assert self.num_nextn_predict_layers in (0, 1), "there is at most one MTP layer"
        assert self.mla_use_nope or self.qk_rope_head_dim % 2 == 0, (
            "rotated channels come in pairs: qk_rope_head_dim must be even"
        )
        assert (self.vision is None) == (self.media_placeholder_token_id is None), "vision goes with media_placeholder_token_id"
        return self

    @property
    def block_size(self) -> int:
        """Layers of a block, whose end a draft may read; without AttnRes a quarter of the model [ours]."""
        return self.attn_res_block_size or max(1, self.num_hidden_layers // 4)

    @property
    def residual_sources(self) -> int:
        """What the output mixes: the embedding and each block, the last perhaps partial; without AttnRes the one stream."""
        return 1 if self.attn_res_block_size is None else 1 + -(-self.num_hidden_layers // self.attn_res_block_size)

    @property
    def activation_bounds(self) -> tuple[float, float]:
        """β₁ and β₂ of every MLP's activation; infinite for SwiGLU."""
        return (inf, inf) if self.hidden_act == "silu" else (self.activation_situ_beta, self.activation_situ_linear_beta)

    def is_full_attention(self, layer: int) -> bool:
        return layer in self.full_attn_layers

    def is_moe(self, layer: int) -> bool:
        return layer >= self.first_k_dense_replace

    def to_public(self) -> dict[str, Any]:
        """The `config.json` that a public model class reads; `ninefold` holds what it has no name for.

        A model that reads pictures is `kimi_k3`, whose `text_config` is a `kimi_linear`; one that does not is that alone.
        """
        own = self.model_dump(mode="json")
        kda = [n + 1 for n in range(self.num_hidden_layers) if not self.is_full_attention(n)]
        linear = {
            "num_heads": self.num_attention_heads,
            "head_dim": self.linear_head_dim,
            "short_conv_kernel_size": self.short_conv_kernel_size,
            "use_full_rank_gate": True,
            "kda_layers": kda,
            "full_attn_layers": [n + 1 for n in self.full_attn_layers],
        }
        fixed = {
            "model_type": "kimi_linear",
            "architectures": ["KimiLinearForCausalLM"],
            "tie_word_embeddings": False,
            "moe_router_activation_func": "sigmoid",
            "moe_renormalize": True,
            "routed_scaling_factor": 1.0,
            "num_key_value_heads": self.num_attention_heads,
        }
        named = {k: v for k, v in own.items() if k not in _PRIVATE and k not in _OUTSIDE}
        text = {**fixed, **named, "linear_attn_config": linear, "ninefold": {k: own[k] for k in sorted(_PRIVATE)}}
        if self.vision is None:
            return text
        vision = {**_VISION, **self.vision.model_dump(mode="json"), "text_hidden_size": self.hidden_size}
        return {
            "model_type": "kimi_k3",
            "architectures": ["KimiK3ForConditionalGeneration"],
            "media_placeholder_token_id": self.media_placeholder_token_id,
            "text_config": text,
            "vision_config": vision,
        }

    @staticmethod
    def from_public(public: dict[str, Any]) -> K3Config:
        """Inverse of `to_public`; also reads the released `kimi_k3` and `kimi_linear` files, which know no `ninefold` part.

        Raises UserError that names what is missing or unfit.
        """
        text = public.get("text_config", public)
        try:
            linear = text["linear_attn_config"]
            released = {
                "decay_rank": linear["head_dim"],
                "shared_intermediate_size": text["moe_intermediate_size"],
                "expert_initializer_range": text.get("initializer_range", 0.02),
                "gate_lower_bound": linear.get("gate_lower_bound", -5.0),
                "num_nextn_predict_layers": 0,
            }
            given = released | {k: v for k, v in text.items() if k in K3Config.model_fields} | text.get("ninefold", {})
            given |= {
                "full_attn_layers": tuple(n - 1 for n in linear["full_attn_layers"]),
                "linear_head_dim": linear["head_dim"],
                "short_conv_kernel_size": linear["short_conv_kernel_size"],
            }
            if "vision_config" in public:
                tower = {k: v for k, v in public["vision_config"].items() if k in VisionConfig.model_fields}
                given |= {"vision": tower, "media_placeholder_token_id": public["media_placeholder_token_id"]}
        except KeyError as error:
            raise UserError(f"this is no kimi_k3 or kimi_linear configuration: it has no {error}") from None
        try:
            return K3Config.model_validate(given)
        except ValidationError as error:
            raise UserError(f"the model's configuration: {faults(error)}") from None


_OUTSIDE = {"vision", "media_placeholder_token_id"}
"""What stands beside the text model's configuration."""
_VISION = {
    "norm_type": "rmsnorm",
    "mlp_type": "mlp2",
    "activation_func": "gelu_pytorch_tanh",
    "attn_bias": False,
    "linear_bias": False,
    "patch_embed_proj_bias": False,
    "pos_emb_type": "divided_fixed",
    "pos_emb_interpolation_mode": "bilinear",
    "merge_type": "sd2_tpool",
    "video_attn_type": "spatial_temporal",
    "mm_projector_type": "patchmergerv2",
    "projector_hidden_act": "gelu",
}
_PRIVATE = {
    "decay_rank",
    "expert_initializer_range",
    "full_attn_layers",
    "gate_lower_bound",
    "linear_head_dim",
    "muon_per_head",
    "router_balance",
    "router_sign_step",
    "shared_intermediate_size",
    "short_conv_kernel_size",
}

"""One decoder layer: two sites, attention (KDA or MLA) and MLP (dense or experts), each behind its norm and, with AttnRes, its
query."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from ninefold.model.attnres import Query, Site
from ninefold.model.config import K3Config
from ninefold.model.kda import KDA, FusedKDA
from ninefold.model.mla import MLA, FusedMLA
from ninefold.model.mlp import MLP, FusedMLP
from ninefold.model.moe import FusedMoE, LatentMoE
from ninefold.model.norm import RMSNorm


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedLayer:
    """A layer as it computes."""

    attention_site: Site | None
    """None in a plain residual stream."""
    attention_norm_D: Tensor
    attention: FusedKDA | FusedMLA | KDA | MLA
    mlp_site: Site | None
    mlp_norm_D: Tensor
    mlp: FusedMoE | FusedMLP | LatentMoE | MLP


class DecoderLayer(nn.Module):
    def __init__(self, config: K3Config, layer: int) -> None:
        super().__init__()
        d, eps = config.hidden_size, config.rms_norm_eps
        self.mixes = config.attn_res_block_size is not None
        if self.mixes:
            self.self_attention_res_norm = RMSNorm(d, eps)
            self.self_attention_res_proj = Query(d)
        self.input_layernorm = RMSNorm(d, eps)
        self.self_attn = MLA(config) if config.is_full_attention(layer) else KDA(config)
        if self.mixes:
            self.mlp_res_norm = RMSNorm(d, eps)
            self.mlp_res_proj = Query(d)
        self.post_attention_layernorm = RMSNorm(d, eps)
        if config.is_moe(layer):
            self.block_sparse_moe = LatentMoE(config)
        else:
            self.mlp = MLP(d, config.intermediate_size, *config.activation_bounds)

    def fused(self, *, lazy: bool = False) -> FusedLayer:
        """The layer ready to compute; lazily, attention and MLP lay out their weights only when they are called."""
        mlp = self.block_sparse_moe if hasattr(self, "block_sparse_moe") else self.mlp
        return FusedLayer(
            attention_site=Site.of(self.self_attention_res_norm, self.self_attention_res_proj) if self.mixes else None,
            attention_norm_D=self.input_layernorm.weight,
            attention=self.self_attn if lazy else self.self_attn.fused(),
            mlp_site=Site.of(self.mlp_res_norm, self.mlp_res_proj) if self.mixes else None,
            mlp_norm_D=self.post_attention_layernorm.weight,
            mlp=mlp if lazy else mlp.fused(),
        )

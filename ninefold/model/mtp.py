"""The multi-token-prediction layer (spec 01): one MLA + LatentMoE block that reads the next token beside the hidden state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from ninefold.core.layout import DocLayout
from ninefold.model.config import K3Config
from ninefold.model.mla import MLA, FusedMLA
from ninefold.model.moe import FusedMoE, LatentMoE
from ninefold.model.norm import RMSNorm, rms_norm
from ninefold.model.ops.product import product

A = TypeVar("A", FusedMLA, MLA)


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedMTP(Generic[A]):
    """The layer as it computes. DEVIATION [ours]: a plain residual pair, no AttnRes state of its own (after DeepSeek-V3)."""

    embedding_norm_D: Tensor
    hidden_norm_D: Tensor
    join: Tensor
    """[D, 2D] over embedding then hidden state."""
    attention_norm_D: Tensor
    attention: A
    mlp_norm_D: Tensor
    moe: FusedMoE | LatentMoE
    norm_D: Tensor
    eps: float

    def enter(self, embedded_ND: Tensor, hidden_ND: Tensor) -> Tensor:
        """W_eh [RMSNorm(emb(t+1)); RMSNorm(h_t)]"""
        parts = (rms_norm(embedded_ND, self.embedding_norm_D, self.eps), rms_norm(hidden_ND, self.hidden_norm_D, self.eps))
        return product(torch.cat(parts, -1), self.join)

    def attention_input(self, x_ND: Tensor) -> Tensor:
        return rms_norm(x_ND, self.attention_norm_D, self.eps)

    def leave(self, x_ND: Tensor) -> Tensor:
        """Experts and final norm after the attention's residual."""
        x_ND = x_ND + self.moe(rms_norm(x_ND, self.mlp_norm_D, self.eps))
        return rms_norm(x_ND, self.norm_D, self.eps)

    def packed(self, embedded_TD: Tensor, hidden_TD: Tensor, layout: DocLayout) -> Tensor:
        """[T, D] for the head, from the embedding of each row's next token and its hidden state."""
        x_TD = self.enter(embedded_TD, hidden_TD)
        return self.leave(x_TD + self.attention(self.attention_input(x_TD), layout))


class SharedHead(nn.Module):
    """The norm before the head that MTP and backbone share."""

    def __init__(self, config: K3Config) -> None:
        super().__init__()
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)


class MTP(nn.Module):
    """The parameters; on disk they are layer number `num_hidden_layers`."""

    def __init__(self, config: K3Config) -> None:
        super().__init__()
        d, self.eps = config.hidden_size, config.rms_norm_eps
        self.enorm = RMSNorm(d, self.eps)
        self.hnorm = RMSNorm(d, self.eps)
        self.eh_proj = nn.Linear(2 * d, d, bias=False)
        self.input_layernorm = RMSNorm(d, self.eps)
        self.self_attn = MLA(config)
        self.post_attention_layernorm = RMSNorm(d, self.eps)
        self.block_sparse_moe = LatentMoE(config)
        self.shared_head = SharedHead(config)

    def fused(self) -> FusedMTP[FusedMLA]:
        """The layer ready to compute; gradients flow back to the parameters."""
        return self._around(self.self_attn.fused(), self.block_sparse_moe.fused())

    def _around(self, attention: A, moe: FusedMoE | LatentMoE) -> FusedMTP[A]:
        return FusedMTP(
            embedding_norm_D=self.enorm.weight,
            hidden_norm_D=self.hnorm.weight,
            join=self.eh_proj.weight,
            attention_norm_D=self.input_layernorm.weight,
            attention=attention,
            mlp_norm_D=self.post_attention_layernorm.weight,
            moe=moe,
            norm_D=self.shared_head.norm.weight,
            eps=self.eps,
        )

    def forward(self, embedded_TD: Tensor, hidden_TD: Tensor, layout: DocLayout) -> Tensor:
        """[T, D] for the shared head."""
        return self._around(self.self_attn, self.block_sparse_moe).packed(embedded_TD, hidden_TD, layout)

"""Llama- and Qwen2-family decoders under their public names: to train on packed documents, and to decode from caches.

Shapes: T tokens, D documents or hidden width where it stands last, B cache rows, S places, H heads, G key-value heads,
Q head width, R query heads of one key-value head.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field, ValidationError, model_validator
from torch import Tensor, nn

from ninefold.core.config import Config, faults
from ninefold.core.errors import UserError
from ninefold.core.layout import DocLayout
from ninefold.model.checkpoint import CONFIG, check_tensors, read_tensors
from ninefold.model.decode import Cache, Rows, step_mask
from ninefold.model.k3 import Hidden
from ninefold.model.mla import pad, unpad
from ninefold.model.norm import RMSNorm, rms_norm

FAMILIES = ("llama", "qwen2")


class LlamaConfig(Config):
    """Shape, in the field names of the public `config.json`."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int = Field(multiple_of=2)
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10_000.0
    tie_word_embeddings: bool = False
    qkv_bias: bool = False
    """Qwen2 has them, Llama does not."""

    @model_validator(mode="after")
    def _consistent(self) -> LlamaConfig:
        assert self.num_attention_heads % self.num_key_value_heads == 0, "num_key_value_heads must divide num_attention_heads"
        return self

    @staticmethod
    def from_hf(public: dict[str, Any]) -> LlamaConfig:
        """From a `config.json`. Raises UserError for another family, and for a feature that is not computed here."""
        kind = public.get("model_type")
        if kind not in FAMILIES:
            raise UserError(f"model_type {kind!r} is not one of {', '.join(FAMILIES)}")
        rope = public.get("rope_parameters") or public.get("rope_scaling") or {}
        scaled = rope.get("rope_type", rope.get("type", "default"))
        unknown = {
            f"rope scaling {scaled!r}": scaled != "default",
            f"hidden_act {public.get('hidden_act')!r}": public.get("hidden_act", "silu") != "silu",
            "sliding windows": bool(public.get("use_sliding_window")),
            "attention_bias": kind == "llama" and bool(public.get("attention_bias")),
            "mlp_bias": bool(public.get("mlp_bias")),
        }
        if found := [name for name, there in unknown.items() if there]:
            raise UserError(f"this {kind} model has {', '.join(found)}, which ninefold does not compute")
        given = {name: value for name, value in public.items() if name in LlamaConfig.model_fields and value is not None}
        given.setdefault("head_dim", public["hidden_size"] // public["num_attention_heads"])
        given.setdefault("num_key_value_heads", public["num_attention_heads"])
        given["rope_theta"] = rope.get("rope_theta", public.get("rope_theta", 10_000.0))
        try:
            return LlamaConfig.model_validate(given | {"qkv_bias": kind == "qwen2"})
        except ValidationError as error:
            raise UserError(f"{CONFIG}: {faults(error)}") from None


def rotations(places_N: Tensor, width: int, theta: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines [N, Q / 2] of a head's channel pairs (c, c + Q / 2) at these places."""
    rate = theta ** -(torch.arange(0, width, 2, dtype=torch.float32, device=places_N.device) / width)
    angle = places_N[:, None].float() * rate
    return angle.cos(), angle.sin()


def rotate(x_NHQ: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    cos, sin = (part[:, None].to(x_NHQ.dtype) for part in turn)
    a, b = x_NHQ.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedBlock:
    """A layer as it computes: one product makes queries, keys and values."""

    attention_norm_D: Tensor
    qkv: Tensor
    bias: Tensor | None
    output: Tensor
    mlp_norm_D: Tensor
    gate_up: Tensor
    down: Tensor

    def mlp(self, x_ND: Tensor) -> Tensor:
        gate, up = F.linear(x_ND, self.gate_up).chunk(2, -1)
        return F.linear(F.silu(gate) * up, self.down)


class Attention(nn.Module):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        d, width = config.hidden_size, config.head_dim
        self.q_proj = nn.Linear(d, config.num_attention_heads * width, bias=config.qkv_bias)
        self.k_proj = nn.Linear(d, config.num_key_value_heads * width, bias=config.qkv_bias)
        self.v_proj = nn.Linear(d, config.num_key_value_heads * width, bias=config.qkv_bias)
        self.o_proj = nn.Linear(config.num_attention_heads * width, d, bias=False)


class GatedMLP(nn.Module):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)


class Block(nn.Module):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = GatedMLP(config)

    def fused(self) -> FusedBlock:
        attention = self.self_attn
        parts = (attention.q_proj, attention.k_proj, attention.v_proj)
        biases: list[Tensor] = [part.bias for part in parts if part.bias is not None]
        return FusedBlock(
            attention_norm_D=self.input_layernorm.weight,
            qkv=torch.cat([part.weight for part in parts]),
            bias=torch.cat(biases) if biases else None,
            output=attention.o_proj.weight,
            mlp_norm_D=self.post_attention_layernorm.weight,
            gate_up=torch.cat([self.mlp.gate_proj.weight, self.mlp.up_proj.weight]),
            down=self.mlp.down_proj.weight,
        )


class Backbone(nn.Module):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)


class Llama(nn.Module):
    """The parameters under their public names; computes like `K3`, over packed documents."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.model = Backbone(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight

    def blocks(self) -> list[FusedBlock]:
        return [layer.fused() for layer in self.model.layers if isinstance(layer, Block)]

    def forward(self, ids_T: Tensor, layout: DocLayout) -> Hidden:
        """Hidden states of packed documents; none sees another."""
        config = self.config
        turn = rotations(torch.from_numpy(layout.position).to(ids_T.device), config.head_dim, config.rope_theta)
        x_TD = self.model.embed_tokens(ids_T)
        outputs: list[Tensor] = []
        for block in self.blocks():
            q_THQ, k_TGQ, v_TGQ = split(F.linear(normed(x_TD, block.attention_norm_D, config), block.qkv, block.bias), config)
            heads = (rotate(q_THQ, turn), rotate(k_TGQ, turn), v_TGQ)
            q, k, v = (pad(part, layout) for part in heads)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
            x_TD = x_TD + F.linear(unpad(mixed, layout).flatten(1), block.output)
            x_TD = x_TD + block.mlp(normed(x_TD, block.mlp_norm_D, config))
            outputs.append(x_TD)
        final_TD = normed(x_TD, self.model.norm.weight, config)
        return Hidden(final_TD=final_TD, features=(outputs[0], outputs[(len(outputs) - 1) // 2], final_TD))

    def logits(self, hidden_ND: Tensor) -> Tensor:
        """[N, V]"""
        return self.lm_head(hidden_ND)


def normed(x_ND: Tensor, weight_D: Tensor, config: LlamaConfig) -> Tensor:
    return rms_norm(x_ND, weight_D, config.rms_norm_eps)


def split(qkv_NX: Tensor, config: LlamaConfig) -> tuple[Tensor, Tensor, Tensor]:
    """Queries [N, H, Q], keys and values [N, G, Q]."""
    heads, shared = config.num_attention_heads, config.num_key_value_heads
    q, k, v = qkv_NX.unflatten(-1, (-1, config.head_dim)).split((heads, shared, shared), -2)
    return q, k, v


def load_llama(folder: Path) -> Llama:
    """The model in a Hugging Face folder, in float32. Raises UserError where it is none or does not fit."""
    if not (folder / CONFIG).exists():
        raise UserError(f"{folder} holds no model: it has no {CONFIG}")
    model = Llama(LlamaConfig.from_hf(json.loads((folder / CONFIG).read_text())))
    state = {name: tensor.float() for name, tensor in read_tensors(folder).items() if not name.endswith("rotary_emb.inv_freq")}
    if model.config.tie_word_embeddings:
        state.setdefault("lm_head.weight", state.get("model.embed_tokens.weight", torch.zeros(0)))
    check_tensors(state, model, folder)
    model.load_state_dict(state)
    return model


class LlamaDecoder:
    """`decode.Decoder` for these models: a snapshot of the weights; a cache entry is a token's keys and values."""

    def __init__(self, model: Llama) -> None:
        self.config = model.config
        with torch.no_grad():
            copied = copy.deepcopy(model)
            self._blocks = copied.blocks()
            self._embedding_VD = copied.model.embed_tokens.weight
            self._norm_D = copied.model.norm.weight
            self._head_VD = copied.lm_head.weight

    def new_cache(self, rows: int, capacity: int) -> Cache:
        """`rows` empty rows for up to `capacity` tokens each."""
        width = 2 * self.config.num_key_value_heads * self.config.head_dim
        entries = {n: torch.zeros(rows, capacity, width) for n in range(self.config.num_hidden_layers)}
        return Cache(states={}, entries=entries, lengths=np.zeros(rows, np.int64))

    @torch.no_grad()
    def extend(self, ids_T: Tensor, layout: DocLayout, cache: Cache, rows: Rows) -> Hidden:
        """Document i goes on in cache row `rows[i]`, which may be empty; hidden states of all new tokens."""
        rows_D, starts_D = torch.from_numpy(rows), torch.from_numpy(cache.lengths[rows])
        document_T = torch.from_numpy(layout.document)
        place_T = starts_D[document_T] + torch.from_numpy(layout.position)
        longest = int((starts_D + torch.from_numpy(layout.lengths)).max())
        place_DX = starts_D[:, None] + torch.arange(int(layout.lengths.max()))
        visible = (torch.arange(longest) <= place_DX[:, :, None])[:, None]

        def attend(n: int, q_THQ: Tensor, entry_TC: Tensor) -> Tensor:
            cache.entries[n][rows_D[document_T], place_T] = entry_TC
            k, v = self._keys_values(cache.entries[n][rows_D, :longest])
            return unpad(self._mixed(pad(q_THQ, layout), k, v, visible), layout)

        hidden = self._run(ids_T, place_T, attend)
        cache.lengths[rows] += layout.lengths
        return hidden

    @torch.no_grad()
    def step(self, ids_B: Tensor, cache: Cache) -> Hidden:
        """One token for each of the first `len(ids_B)` rows of the cache."""
        count = len(ids_B)
        place_B, hidden_BS = step_mask(cache.lengths[:count])
        row_B, longest = torch.arange(count), hidden_BS.shape[1]
        visible = ~hidden_BS[:, None, None]

        def attend(n: int, q_BHQ: Tensor, entry_BC: Tensor) -> Tensor:
            cache.entries[n][row_B, place_B] = entry_BC
            k, v = self._keys_values(cache.entries[n][:count, :longest])
            return self._mixed(q_BHQ[:, :, None], k, v, visible)[:, :, 0]

        hidden = self._run(ids_B, place_B, attend)
        cache.lengths[:count] += 1
        return hidden

    @torch.no_grad()
    def logits(self, hidden_ND: Tensor) -> Tensor:
        """[N, V]"""
        return F.linear(hidden_ND, self._head_VD)

    def _run(self, ids_N: Tensor, place_N: Tensor, attend: Any) -> Hidden:
        """`attend(layer, queries [N, H, Q], cache entries [N, C])` gives the mixed values [N, H, Q]."""
        config = self.config
        turn = rotations(place_N, config.head_dim, config.rope_theta)
        x_ND = F.embedding(ids_N, self._embedding_VD)
        outputs: list[Tensor] = []
        for n, block in enumerate(self._blocks):
            q_NHQ, k_NGQ, v_NGQ = split(F.linear(normed(x_ND, block.attention_norm_D, config), block.qkv, block.bias), config)
            entry_NC = torch.cat([rotate(k_NGQ, turn), v_NGQ], -2).flatten(1)
            mixed_NHQ = attend(n, rotate(q_NHQ, turn), entry_NC)
            x_ND = x_ND + F.linear(mixed_NHQ.flatten(1), block.output)
            x_ND = x_ND + block.mlp(normed(x_ND, block.mlp_norm_D, config))
            outputs.append(x_ND)
        final_ND = normed(x_ND, self._norm_D, config)
        return Hidden(final_TD=final_ND, features=(outputs[0], outputs[(len(outputs) - 1) // 2], final_ND))

    def _keys_values(self, entries_BSC: Tensor) -> tuple[Tensor, Tensor]:
        """[B, G, S, Q] each, without a copy."""
        both = entries_BSC.unflatten(-1, (2, self.config.num_key_value_heads, self.config.head_dim))
        k, v = both.permute(2, 0, 3, 1, 4).unbind(0)
        return k, v

    def _mixed(self, q_BHXQ: Tensor, k_BGSQ: Tensor, v_BGSQ: Tensor, visible: Tensor) -> Tensor:
        """[B, H, X, Q]"""
        grouped = q_BHXQ.shape[1] != k_BGSQ.shape[1]
        return F.scaled_dot_product_attention(q_BHXQ, k_BGSQ, v_BGSQ, attn_mask=visible, enable_gqa=grouped)

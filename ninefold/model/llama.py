"""Llama- and Qwen2-family decoders under their public names: to train on packed documents, and to decode from caches.

Shapes: T tokens, D documents or hidden width where it stands last, B cache rows, S places, H heads, G key-value heads,
Q head width, R query heads of one key-value head.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field, ValidationError, model_validator
from safetensors.torch import save
from torch import Tensor, nn

from ninefold.core.config import Config, faults
from ninefold.core.errors import UserError
from ninefold.core.layout import DocLayout
from ninefold.core.store import write_atomic, write_json
from ninefold.model.checkpoint import CONFIG, INDEX, WEIGHTS, check_tensors, read_public, read_tensors
from ninefold.model.decode import Cache, Cut, Rows
from ninefold.model.k3 import Hidden
from ninefold.model.mla import attend, behind, pad, unpad
from ninefold.model.norm import RMSNorm, rms_norm
from ninefold.model.ops.gqa import LlamaWeights, entry, gqa_step, keys_values, llama_step, mixed, split, swiglu
from ninefold.model.ops.product import Panels, product
from ninefold.model.ops.rope import Turn, rotate, rotations

FAMILIES = ("llama", "qwen2")
TIED = "lm_head.weight"
"""Not on disk where it is the embedding."""
TABLE = 256
"""Places whose angles are made at once."""
Attend = Callable[[int, Tensor, Turn], Tensor]
"""(layer number, queries, keys and values [N, X], angles) → mixed values [N, H·Q]."""


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


def project(x_ND: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b in the weight's dtype, back in that of `x_ND`."""
    y = product(x_ND.to(weight.dtype), weight).to(x_ND.dtype)
    return y if bias is None else y + bias


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

    def to(self, dtype: torch.dtype) -> FusedBlock:
        """With the matrices and the bias in `dtype`; norms stay as they are."""
        bias = None if self.bias is None else self.bias.to(dtype)
        matrices = {name: getattr(self, name).to(dtype) for name in ("qkv", "output", "gate_up", "down")}
        return replace(self, bias=bias, **matrices)

    def rows(self) -> tuple[Tensor | None, ...]:
        """In the order of `LlamaWeights`."""
        return self.attention_norm_D, self.qkv, self.bias, self.output, self.mlp_norm_D, self.gate_up, self.down

    def mlp(self, x_ND: Tensor) -> Tensor:
        return project(swiglu(project(x_ND, self.gate_up)), self.down)


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

    def __init__(self, config: LlamaConfig, *, products: torch.dtype | None = None) -> None:
        """`products` is the dtype that matrix products are rounded to, None that of the parameters; all else stays in theirs.

        [ours] Processors with bfloat16 products take a quarter of the time for them; masters, norms, attention and the
        residual stream stay in float32, in training and in decoding alike.
        """
        super().__init__()
        self.config = config
        self.products = products
        self.model = Backbone(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight

    def blocks(self) -> list[FusedBlock]:
        """The layers as they compute, their matrices in `products`."""
        blocks = [layer.fused() for layer in self.model.layers if isinstance(layer, Block)]
        return blocks if self.products is None else [block.to(self.products) for block in blocks]

    def head(self) -> Tensor:
        """[V, D] the matrix behind the logits, in `products`."""
        return self.lm_head.weight if self.products is None else self.lm_head.weight.to(self.products)

    def forward(self, ids_T: Tensor, layout: DocLayout) -> Hidden:
        """Hidden states of packed documents; none sees another."""
        config = self.config
        turn = rotations(torch.from_numpy(layout.place).to(ids_T.device), config.head_dim, config.rope_theta)
        x_TD = self.model.embed_tokens(ids_T)
        outputs: list[Tensor] = []
        for block in self.blocks():
            qkv_TX = project(normed(x_TD, block.attention_norm_D, config), block.qkv, block.bias)
            q_THQ, k_TGQ, v_TGQ = split(qkv_TX, config.num_attention_heads, config.num_key_value_heads)
            o_THQ = attend(rotate(q_THQ, turn), rotate(k_TGQ, turn), v_TGQ, layout, mixed)
            x_TD = x_TD + project(o_THQ.flatten(1), block.output)
            x_TD = x_TD + block.mlp(normed(x_TD, block.mlp_norm_D, config))
            outputs.append(x_TD)
        final_TD = normed(x_TD, self.model.norm.weight, config)
        return Hidden(final_TD=final_TD, features=(outputs[0], outputs[(len(outputs) - 1) // 2], final_TD))

    def logits(self, hidden_ND: Tensor) -> Tensor:
        """[N, V]"""
        return project(hidden_ND, self.head())


def normed(x_ND: Tensor, weight_D: Tensor, config: LlamaConfig) -> Tensor:
    return rms_norm(x_ND, weight_D, config.rms_norm_eps)


def load_llama(folder: Path, *, products: torch.dtype | None = None) -> Llama:
    """The model in a Hugging Face folder, in float32. Raises UserError where it is none or does not fit."""
    model = Llama(LlamaConfig.from_hf(read_public(folder)), products=products)
    state = {name: tensor.float() for name, tensor in read_tensors(folder).items() if not name.endswith("rotary_emb.inv_freq")}
    if model.config.tie_word_embeddings:
        state.setdefault(TIED, state.get("model.embed_tokens.weight", torch.zeros(0)))
    check_tensors(state, model, folder)
    model.load_state_dict(state)
    return model


def save_llama(tensors: Mapping[str, Tensor], folder: Path, *, like: Path) -> None:
    """Write weights as a Hugging Face folder, in their dtype: all else in it is that of the folder `like`."""
    config = read_public(like)
    dtype = str(next(iter(tensors.values())).dtype).removeprefix("torch.")
    kept = {name: t.contiguous() for name, t in tensors.items() if name != TIED or not config.get("tie_word_embeddings")}
    write_atomic(folder / WEIGHTS, save(kept, metadata={"format": "pt"}))
    write_json(folder / CONFIG, {**config, "dtype": dtype})
    for path in like.iterdir():
        if path.suffix in (".json", ".jinja", ".txt", ".model") and path.name not in (CONFIG, INDEX):
            shutil.copyfile(path, folder / path.name)


class LlamaDecoder:
    """`decode.Decoder` for these models: a snapshot of the weights; a cache entry is a token's keys and values."""

    def __init__(self, model: Llama) -> None:
        self.config = model.config
        self._heads, self._shared = model.config.num_attention_heads, model.config.num_key_value_heads
        with torch.no_grad():
            copied = copy.deepcopy(model)
            self._blocks = copied.blocks()
            self._embedding_VD = copied.model.embed_tokens.weight
            self._norm_D = copied.model.norm.weight
            self._head_VD = copied.head()
            self._head = Panels.of(self._head_VD)
            layers, eps = [block.rows() for block in self._blocks], model.config.rms_norm_eps
            self._kernel = LlamaWeights.of(layers, self._heads, self._shared, eps)
        self._turns = rotations(torch.arange(0), model.config.head_dim, model.config.rope_theta)

    def new_cache(self, rows: int, capacity: int) -> Cache:
        """`rows` empty rows for up to `capacity` tokens each."""
        width = 2 * self.config.num_key_value_heads * self.config.head_dim
        entries = {n: torch.zeros(rows, capacity, width) for n in range(self.config.num_hidden_layers)}
        return Cache(states={}, entries=entries, lengths=np.zeros(rows, np.int64))

    @torch.no_grad()
    def extend(self, ids_T: Tensor, layout: DocLayout, cache: Cache, rows: Rows, cut: Cut | None = None) -> Hidden:
        """Document i goes on in cache row `rows[i]`, which may be empty; hidden states of all new tokens. There is no state
        to `cut`."""
        rows_D, starts_D = torch.from_numpy(rows), torch.from_numpy(cache.lengths[rows])
        document_T = torch.from_numpy(layout.document)
        place_T = starts_D[document_T] + torch.from_numpy(layout.position)
        longest = int((starts_D + torch.from_numpy(layout.lengths)).max())
        visible = behind(starts_D, int(layout.lengths.max()), longest)

        def attention(n: int, qkv_TX: Tensor, turn: Turn) -> Tensor:
            q_THQ, k_TGQ, v_TGQ = split(qkv_TX, self._heads, self._shared)
            cache.entries[n][rows_D[document_T], place_T] = entry(rotate(k_TGQ, turn), v_TGQ)
            k, v = keys_values(cache.entries[n][rows_D, :longest], self._shared)
            return unpad(mixed(pad(rotate(q_THQ, turn), layout), k, v, visible), layout).flatten(1)

        hidden = self._run(ids_T, place_T, attention)
        cache.lengths[rows] += layout.lengths
        return hidden

    @torch.no_grad()
    def step(self, ids_B: Tensor, cache: Cache) -> Hidden:
        """One token for each of the first `len(ids_B)` rows of the cache."""
        if self._kernel is None:
            return self.step_torch(ids_B, cache)
        place_B = torch.from_numpy(cache.lengths[: len(ids_B)].copy())
        turn = self._turn(place_B)
        caches = [cache.entries[n] for n in range(self.config.num_hidden_layers)]
        *early, last_BD = llama_step(F.embedding(ids_B, self._embedding_VD), self._kernel, caches, turn, place_B)
        cache.lengths[: len(ids_B)] += 1
        final_BD = normed(last_BD, self._norm_D, self.config)
        return Hidden(final_TD=final_BD, features=(early[0], early[1], final_BD))

    @torch.no_grad()
    def step_torch(self, ids_B: Tensor, cache: Cache) -> Hidden:
        """`step` from single operations, on any device."""
        count = len(ids_B)
        place_B = torch.from_numpy(cache.lengths[:count].copy())

        def attend(n: int, qkv_BX: Tensor, turn: Turn) -> Tensor:
            return gqa_step(qkv_BX, turn, cache.entries[n][:count], place_B, self._heads, self._shared)

        hidden = self._run(ids_B, place_B, attend)
        cache.lengths[:count] += 1
        return hidden

    @torch.no_grad()
    def logits(self, hidden_ND: Tensor) -> Tensor:
        """[N, V]"""
        return project(hidden_ND, self._head_VD) if self._head is None else self._head.product(hidden_ND)

    def _turn(self, place_N: Tensor) -> Turn:
        """Angles of these places, from a table that grows as rows do."""
        cos, sin = self._turns
        if (longest := int(place_N.max()) + 1) > len(cos):
            places = torch.arange(max(longest, 2 * len(cos), TABLE))
            self._turns = cos, sin = rotations(places, self.config.head_dim, self.config.rope_theta)
        return cos[place_N], sin[place_N]

    def _run(self, ids_N: Tensor, place_N: Tensor, attend: Attend) -> Hidden:
        config = self.config
        turn = self._turn(place_N)
        x_ND = F.embedding(ids_N, self._embedding_VD)
        outputs: list[Tensor] = []
        for n, block in enumerate(self._blocks):
            qkv_NX = project(normed(x_ND, block.attention_norm_D, config), block.qkv, block.bias)
            x_ND = x_ND + project(attend(n, qkv_NX, turn), block.output)
            x_ND = x_ND + block.mlp(normed(x_ND, block.mlp_norm_D, config))
            outputs.append(x_ND)
        final_ND = normed(x_ND, self._norm_D, config)
        return Hidden(final_TD=final_ND, features=(outputs[0], outputs[(len(outputs) - 1) // 2], final_ND))

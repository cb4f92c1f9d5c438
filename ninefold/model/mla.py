"""Gated multi-head latent attention without positions (spec 01): packed, continuing a cache, and one token at a time; for
comparison also without the gate, and with rotated shared channels, as in K2.

Shapes: T tokens, D documents, B cache rows, S places, H heads, N nope and R rope channels, Q = N + R, V value width,
L latent width, C = L + R cached channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ninefold.core.layout import DocLayout
from ninefold.model.config import K3Config
from ninefold.model.norm import RMSNorm, rms_norm
from ninefold.model.ops import native
from ninefold.model.ops.kcp import Stretch
from ninefold.model.ops.layer import MLAWeights, mla_layer_step
from ninefold.model.ops.product import product
from ninefold.model.ops.rope import rotate_neighbours, rotations

KeyValue = tuple[Tensor, Tensor]
"""[T, H, Q] and [T, H, V]"""


@dataclass(frozen=True, kw_only=True)
class FusedMLA:
    """The layer as it computes: one product reads the input."""

    input_ID: Tensor
    """Rows: query latent, key-value latent, shared key channels, output gate if there is one."""
    query_norm: Tensor
    query_up: Tensor
    """[H·Q, query latent]"""
    latent_norm_L: Tensor
    key_up_HNL: Tensor
    value_up_HVL: Tensor
    output: Tensor
    """[hidden, H·V]"""
    rope: int
    theta: float | None
    """Base of the angles that the shared channels are turned by; None leaves them as they are."""
    gated: bool
    eps: float
    record: Callable[[Tensor, Tensor, float, Tensor], None] | None
    """Sees padded queries and keys, the scale, and which keys a query may see, of every packed forward."""

    @property
    def scale(self) -> float:
        return (self.key_up_HNL.shape[1] + self.rope) ** -0.5

    def entry(self, x_ND: Tensor, place_N: Tensor) -> Tensor:
        """[N, C] what these tokens leave in a cache, at their places in it."""
        return self._project(x_ND, place_N)[1]

    def __call__(self, x_TD: Tensor, layout: DocLayout) -> Tensor:
        """[T, D] of whole documents."""
        q_THQ, entry_TC, gate = self._project(x_TD, torch.from_numpy(layout.place))
        k_THQ, v_THV = self._expand(entry_TC)
        return self._output(attend(q_THQ, k_THQ, v_THV, layout, self._mixed), gate)

    def _mixed(self, q_DHXQ: Tensor, k_DHSQ: Tensor, v_DHSV: Tensor, visible: Tensor | None) -> Tensor:
        """[D, H, X, V]; without `visible` a query sees its own place and those before it."""
        if self.record is not None:
            shape = q_DHXQ.shape[2], k_DHSQ.shape[2]
            self.record(q_DHXQ, k_DHSQ, self.scale, torch.ones(shape, dtype=torch.bool).tril() if visible is None else visible)
        return F.scaled_dot_product_attention(
            q_DHXQ, k_DHSQ, v_DHSV, attn_mask=visible, is_causal=visible is None, scale=self.scale
        )

    def branched(self, x_TD: Tensor, layout: DocLayout, earlier: Sequence[KeyValue]) -> tuple[Tensor, KeyValue]:
        """[T, D] of a draft's step: row t attends to the first step's rows up to t, and to row t of every later step.

        `earlier` holds the keys and values of the steps before this one; those of this step come back. Its place is as many
        behind the first step's.
        """
        q_THQ, entry_TC, gate = self._project(x_TD, torch.from_numpy(layout.position) + len(earlier))
        steps = [*earlier, self._expand(entry_TC)]
        (k_DHSQ, v_DHSV), q_DHSQ = (pad(t, layout) for t in steps[0]), pad(q_THQ, layout)
        past_DHSS = (q_DHSQ @ k_DHSQ.transpose(-1, -2)) * self.scale
        future_SS = torch.ones(past_DHSS.shape[-2:], dtype=torch.bool, device=x_TD.device).triu(1)
        past_THS = unpad(past_DHSS.masked_fill(future_SS, float("-inf")), layout)
        own_TH1 = [(q_THQ * k_THQ).sum(-1, keepdim=True) * self.scale for k_THQ, _ in steps[1:]]
        weights_THX = torch.softmax(torch.cat([past_THS, *own_TH1], -1), -1)
        past_THS, own_THX = weights_THX.split((past_THS.shape[-1], len(own_TH1)), -1)
        o_THV = unpad(pad(past_THS, layout) @ v_DHSV, layout)
        for n, (_, v_THV) in enumerate(steps[1:]):
            o_THV = o_THV + own_THX[..., n : n + 1] * v_THV
        return self._output(o_THV, gate), steps[-1]

    def extend(self, x_TD: Tensor, layout: DocLayout, cache_BSC: Tensor, rows_D: Tensor, starts_D: Tensor) -> Tensor:
        """[T, D] of continuations: document i goes on in cache row `rows_D[i]` after its first `starts_D[i]` tokens."""
        document_T, position_T = torch.from_numpy(layout.document), torch.from_numpy(layout.position)
        place_T = starts_D[document_T] + position_T
        q_THQ, entry_TC, gate = self._project(x_TD, place_T)
        cache_BSC[rows_D[document_T], place_T] = entry_TC
        longest = int((starts_D + torch.from_numpy(layout.lengths)).max())
        k_DSHQ, v_DSHV = self._expand(cache_BSC[rows_D, :longest])
        return self._output(self._behind(q_THQ, k_DSHQ.transpose(1, 2), v_DSHV.transpose(1, 2), layout, starts_D), gate)

    def split(self, x_TD: Tensor, stretch: Stretch) -> Tensor:
        """[T, D] of this rank's tokens, where ranks hold stretches of whole documents; all ranks call it together.

        The latents of all ranks are gathered, and expanded where they are read.
        """
        layout = stretch.layout
        q_THQ, entry_TC, gate = self._project(x_TD, torch.from_numpy(stretch.whole.position[stretch.tokens]))
        k_DHSQ, v_DHSV = (pad(t, stretch.seen) for t in self._expand(stretch.gather_seen(entry_TC)))
        starts_D = torch.from_numpy(stretch.seen.lengths - layout.lengths)
        return self._output(self._behind(q_THQ, k_DHSQ, v_DHSV, layout, starts_D), gate)

    def _behind(self, q_THQ: Tensor, k_DHSQ: Tensor, v_DHSV: Tensor, layout: DocLayout, starts_D: Tensor) -> Tensor:
        """[T, H, V] attention of documents' ends; document i has `starts_D[i]` keys before its first query."""
        q_DHXQ = pad(q_THQ, layout)
        return unpad(self._mixed(q_DHXQ, k_DHSQ, v_DHSV, behind(starts_D, q_DHXQ.shape[2], k_DHSQ.shape[2])), layout)

    def step(self, x_BD: Tensor, cache_BSC: Tensor, position_B: Tensor, hidden_BS: Tensor) -> Tensor:
        """One token of each row, in the absorbed form; its cache entry is written at `position_B`.

        `hidden_BS` is True where a row may not look, behind its position; it is as wide as the longest row.
        """
        if self._kernel is not None and native.usable(x_BD, cache_BSC):
            return product(mla_layer_step(product(x_BD, self.input_ID), self._kernel, cache_BSC, position_B), self.output)
        return self.step_torch(x_BD, cache_BSC, position_B, hidden_BS)

    def step_torch(self, x_BD: Tensor, cache_BSC: Tensor, position_B: Tensor, hidden_BS: Tensor) -> Tensor:
        """`step` from the single operations."""
        q_BHQ, entry_BC, gate = self._project(x_BD, position_B)
        cache_BSC[torch.arange(len(x_BD)), position_B] = entry_BC
        seen_BSC = cache_BSC[:, : hidden_BS.shape[1]]
        q_nope, q_rope = q_BHQ.split((q_BHQ.shape[-1] - self.rope, self.rope), -1)
        absorbed_BHL = torch.bmm(q_nope.transpose(0, 1), self.key_up_HNL).transpose(0, 1)
        query_BHC = torch.cat([absorbed_BHL, q_rope], -1) * self.scale
        scores_BHS = torch.bmm(query_BHC, seen_BSC.transpose(1, 2)).masked_fill_(hidden_BS[:, None], float("-inf"))
        mixed_BHL = torch.bmm(torch.softmax(scores_BHS, -1), seen_BSC[..., : -self.rope])
        o_BHV = torch.bmm(mixed_BHL.transpose(0, 1), self.value_up_HVL.transpose(1, 2)).transpose(0, 1)
        return self._output(o_BHV, gate)

    @cached_property
    def _kernel(self) -> MLAWeights | None:
        """None for shapes that the kernel does not take, for rotated channels, and without the gate."""
        if self.theta is not None or not self.gated:
            return None
        weights = MLAWeights(
            query_norm_A=self.query_norm,
            query_up_AX=self.query_up.T.contiguous(),
            latent_norm_L=self.latent_norm_L,
            key_up_HNL=self.key_up_HNL.contiguous(),
            value_up_HLV=self.value_up_HVL.transpose(1, 2).contiguous(),
            rope=self.rope,
            eps=self.eps,
        )
        return weights if weights.fits else None

    def _project(self, x_ND: Tensor, place_N: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Queries [N, H, Q], cache entries [N, C], gate logits [N, H·V] if there is a gate; places are within documents."""
        heads, latent = len(self.key_up_HNL), len(self.latent_norm_L)
        sizes = (len(self.query_norm), latent, self.rope, self.output.shape[1] * self.gated)
        query, latent, shared, gate = product(x_ND, self.input_ID).split(sizes, -1)
        q = product(rms_norm(query, self.query_norm, self.eps), self.query_up).unflatten(-1, (heads, -1))
        if self.theta is not None:
            turn = rotations(place_N.to(x_ND.device), self.rope, self.theta)
            q_nope, q_rope = q.split((q.shape[-1] - self.rope, self.rope), -1)
            q = torch.cat([q_nope, rotate_neighbours(q_rope, turn)], -1)
            shared = rotate_neighbours(shared[:, None], turn)[:, 0]
        entry = torch.cat([rms_norm(latent, self.latent_norm_L, self.eps), shared], -1)
        return q, entry, gate if self.gated else None

    def _expand(self, entry_XC: Tensor) -> tuple[Tensor, Tensor]:
        """Keys [..., H, Q] and values [..., H, V] of cache entries [..., C]."""
        heads = len(self.key_up_HNL)
        latent, shared = entry_XC.split((entry_XC.shape[-1] - self.rope, self.rope), -1)
        k_nope = product(latent, self.key_up_HNL.flatten(0, 1)).unflatten(-1, (heads, -1))
        v = product(latent, self.value_up_HVL.flatten(0, 1)).unflatten(-1, (heads, -1))
        return torch.cat([k_nope, shared.unsqueeze(-2).expand(*k_nope.shape[:-1], -1)], -1), v

    def _output(self, o_NHV: Tensor, gate: Tensor | None) -> Tensor:
        o_NX = o_NHV.flatten(-2)
        return product(o_NX if gate is None else torch.sigmoid(gate) * o_NX, self.output)


Mixed = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]
"""(queries [D, H, X, Q], keys, values [D, G, S, …], which keys a query sees or None: those up to its own) → [D, H, X, V]."""


def attend(q_THQ: Tensor, k_TGQ: Tensor, v_TGV: Tensor, layout: DocLayout, mixed: Mixed) -> Tensor:
    """[T, H, V] causal attention of packed documents; a branch also sees its trunk."""
    if layout.trunks is None:
        return unpad(mixed(pad(q_THQ, layout), pad(k_TGQ, layout), pad(v_TGV, layout), None), layout)
    trunk, branch, (tokens, whole) = layout.trunk, layout.branch, layout.whole
    n = trunk.tokens
    trunk_THV = attend(q_THQ[:n], k_TGQ[:n], v_TGV[:n], trunk, mixed)
    q_DHXQ = pad(q_THQ[n:], branch)
    k_DGSQ, v_DGSV = (pad(t[torch.from_numpy(tokens).to(t.device)], whole) for t in (k_TGQ, v_TGV))
    seen = behind(torch.from_numpy(whole.lengths - branch.lengths), q_DHXQ.shape[2], k_DGSQ.shape[2]).to(q_THQ.device)
    return torch.cat([trunk_THV, unpad(mixed(q_DHXQ, k_DGSQ, v_DGSV, seen), branch)])


def behind(starts_D: Tensor, queries: int, keys: int) -> Tensor:
    """[D, 1, X, S] True where a query may look: it has `starts_D` keys before the document's first query."""
    place_DX = starts_D[:, None] + torch.arange(queries)
    return (torch.arange(keys) <= place_DX[:, :, None])[:, None]


def pad(x_THX: Tensor, layout: DocLayout) -> Tensor:
    """[D, H, longest, X] with zeros after each document's end."""
    longest = int(layout.lengths.max())
    if layout.tokens < layout.documents * longest:
        rectangle = x_THX.new_zeros(layout.documents * longest, *x_THX.shape[1:])
        x_THX = rectangle.index_copy(0, torch.from_numpy(layout.padded).to(x_THX.device), x_THX)
    return x_THX.unflatten(0, (layout.documents, longest)).transpose(1, 2)


def unpad(x_DHSX: Tensor, layout: DocLayout) -> Tensor:
    flat = x_DHSX.transpose(1, 2).flatten(0, 1)
    return flat if len(flat) == layout.tokens else flat[torch.from_numpy(layout.padded).to(flat.device)]


class MLA(nn.Module):
    """The parameters under their public names."""

    def __init__(self, config: K3Config) -> None:
        super().__init__()
        d, heads = config.hidden_size, config.num_attention_heads
        self.nope, self.rope, self.value = config.qk_nope_head_dim, config.qk_rope_head_dim, config.v_head_dim
        self.heads, self.latent, self.eps = heads, config.kv_lora_rank, config.rms_norm_eps
        self.q_a_proj = nn.Linear(d, config.q_lora_rank, bias=False)
        self.q_a_layernorm = RMSNorm(config.q_lora_rank, self.eps)
        self.q_b_proj = nn.Linear(config.q_lora_rank, heads * (self.nope + self.rope), bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(d, self.latent + self.rope, bias=False)
        self.kv_a_layernorm = RMSNorm(self.latent, self.eps)
        self.kv_b_proj = nn.Linear(self.latent, heads * (self.nope + self.value), bias=False)
        self.g_proj = nn.Linear(d, heads * self.value, bias=False) if config.mla_use_output_gate else None
        self.theta = None if config.mla_use_nope else config.rope_theta
        self.o_proj = nn.Linear(heads * self.value, d, bias=False)
        self.recording = False
        self.max_logit_H: Tensor | None = None
        """Largest attention logit of each head, and at least 0, since it was last set to None (for QK-clip)."""

    def fused(self) -> FusedMLA:
        """The layer ready to compute; gradients flow back to the parameters."""
        key_up, value_up = self.kv_b_proj.weight.view(self.heads, -1, self.latent).split((self.nope, self.value), 1)
        inputs = (self.q_a_proj, self.kv_a_proj_with_mqa, self.g_proj)
        return FusedMLA(
            input_ID=torch.cat([projection.weight for projection in inputs if projection is not None]),
            query_norm=self.q_a_layernorm.weight,
            query_up=self.q_b_proj.weight,
            latent_norm_L=self.kv_a_layernorm.weight,
            key_up_HNL=key_up,
            value_up_HVL=value_up,
            output=self.o_proj.weight,
            rope=self.rope,
            theta=self.theta,
            gated=self.g_proj is not None,
            eps=self.eps,
            record=self._record if self.recording and torch.is_grad_enabled() else None,
        )

    def forward(self, x_TD: Tensor, layout: DocLayout) -> Tensor:
        """[T, D] of whole documents."""
        return self.fused()(x_TD, layout)

    @torch.no_grad()
    def _record(self, q_DHXQ: Tensor, k_DHSQ: Tensor, scale: float, visible: Tensor) -> None:
        logits_DHXS = (q_DHXQ @ k_DHSQ.transpose(-1, -2)).mul_(visible.to(q_DHXQ))
        largest_H = logits_DHXS.amax((0, 2, 3)) * scale
        self.max_logit_H = largest_H if self.max_logit_H is None else torch.maximum(self.max_logit_H, largest_H)

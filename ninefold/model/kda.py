"""Kimi Delta Attention: projections, short convolution, gate and delta rule, packed and one token at a time (spec 01).

Shapes: T tokens, D documents, B decode rows, N either, H heads, K key = value width of a head, J = HK, C = 3J channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ninefold.core.layout import DocLayout
from ninefold.model.config import K3Config
from ninefold.model.norm import RMSNorm, rms_norm
from ninefold.model.ops import native
from ninefold.model.ops.conv import last_inputs, short_conv, short_conv_step
from ninefold.model.ops.kcp import Stretch, kda_parallel
from ninefold.model.ops.kda import A_LOG_MAX, kda, kda_gate, kda_step, l2norm
from ninefold.model.ops.kda_layer import KDAWeights, kda_layer, kda_layer_step
from ninefold.model.ops.product import product


class KDAState(NamedTuple):
    """What a document leaves behind for its next token."""

    conv_DWC: Tensor
    """The last W = width − 1 inputs of the convolution."""
    delta_DHKV: Tensor
    """The delta rule's memory."""


@dataclass(frozen=True, kw_only=True)
class FusedKDA:
    """The layer as it computes: one product reads the input."""

    input_ID: Tensor
    """Rows: q, k, v, output gate, decay down, β."""
    conv_CW: Tensor
    decay_up_JR: Tensor
    decay_bias_J: Tensor
    A_log_H: Tensor
    norm_V: Tensor
    output_DJ: Tensor
    heads: int
    eps: float
    g_min: float
    """Smallest log-decay of a channel in one token."""

    def __call__(self, x_TD: Tensor, layout: DocLayout) -> Tensor:
        """[T, D] of whole documents."""
        return self.packed(x_TD, layout)[0]

    def packed(self, x_TD: Tensor, layout: DocLayout, initial: KDAState | None = None) -> tuple[Tensor, KDAState]:
        """[T, D] of whole documents, or of their continuations from `initial`; also the state after each document."""
        if layout.trunks is not None:
            assert initial is None
            return self._branched(x_TD, layout, layout.trunks)
        if self._kernel is None or not native.usable(x_TD):
            return self.packed_torch(x_TD, layout, initial)
        x_TI, channels = product(x_TD, self.input_ID), len(self.conv_CW)
        if initial is None:
            window = x_TD.new_zeros(layout.documents, self.conv_CW.shape[1] - 1, channels)
            initial = KDAState(window, x_TD.new_zeros(layout.documents, self.heads, *[len(self.norm_V)] * 2))
        y_TJ, delta_DHKV = kda_layer(x_TI, self._kernel, *initial, layout)
        state = KDAState(last_inputs(x_TI[:, :channels], layout, initial.conv_DWC), delta_DHKV)
        return product(y_TJ, self.output_DJ), state

    def _branched(self, x_TD: Tensor, layout: DocLayout, trunks: NDArray[np.int64]) -> tuple[Tensor, KDAState]:
        """`packed` of trunks and then of what goes on from their states, or from nothing."""
        trunk_TD, branch_TD = x_TD.split((layout.trunk.tokens, layout.branch.tokens))
        y_TD, left = self.packed(trunk_TD, layout.trunk)
        # A row of zeros behind the trunks' states is what −1 picks.
        begun = KDAState(*(torch.cat([part, torch.zeros_like(part[:1])])[torch.from_numpy(trunks)] for part in left))
        z_TD, final = self.packed(branch_TD, layout.branch, begun)
        return torch.cat([y_TD, z_TD]), KDAState(*(torch.cat(parts) for parts in zip(left, final)))

    def split(self, x_TD: Tensor, stretch: Stretch) -> Tensor:
        """[T, D] of this rank's tokens, where ranks hold stretches of whole documents (KCP); all ranks call it together."""
        qkv_TC, gate_TJ, decay_THK, beta_TH = self._project(x_TD)
        window_DWC = stretch.window(qkv_TC, self.conv_CW.shape[1] - 1)
        q, k, v = self._split(short_conv(qkv_TC, self.conv_CW, stretch.layout, window_DWC)[0])
        continues = stretch.before > 0
        o_THV, _ = kda_parallel(q, k, v, decay_THK, beta_TH, stretch.layout, continues=continues, group=stretch.group)
        return self._output(o_THV, gate_TJ)

    def packed_cut(
        self, x_TD: Tensor, layout: DocLayout, initial: KDAState, after: NDArray[np.int64]
    ) -> tuple[Tensor, KDAState, KDAState]:
        """`packed`; also the state after the first `after[i]` tokens of each document, where that is not 0. No gradients."""
        if self._kernel is None or not native.usable(x_TD):
            y_TD, final = self.packed_torch(x_TD, layout, initial)
            there, early = after > 0, torch.from_numpy(np.flatnonzero(layout.position < after[layout.document]))
            began = KDAState(*(part[torch.from_numpy(there)] for part in initial))
            cut = KDAState(*(part.clone() for part in initial))
            for part, kept in zip(cut, self.packed_torch(x_TD[early], DocLayout.of(after[there].tolist()), began)[1]):
                part[torch.from_numpy(there)] = kept
            return y_TD, final, cut
        x_TI, cut_DHKV = product(x_TD, self.input_ID), torch.empty_like(initial.delta_DHKV)
        y_TJ, delta_DHKV = kda_layer(x_TI, self._kernel, *initial, layout, (torch.from_numpy(after), cut_DHKV))
        qkv_TC = x_TI[:, : len(self.conv_CW)]
        final, cut = (last_inputs(qkv_TC, layout, initial.conv_DWC, lengths) for lengths in (layout.lengths, after))
        return product(y_TJ, self.output_DJ), KDAState(final, delta_DHKV), KDAState(cut, cut_DHKV)

    def packed_torch(self, x_TD: Tensor, layout: DocLayout, initial: KDAState | None = None) -> tuple[Tensor, KDAState]:
        """`packed` from the single operations."""
        qkv_TC, gate_TJ, decay_THK, beta_TH = self._project(x_TD)
        conv_DWC, delta_DHKV = (None, None) if initial is None else initial
        convolved_TC, conv_DWC = short_conv(qkv_TC, self.conv_CW, layout, conv_DWC)
        q, k, v = self._split(convolved_TC)
        o_THV, delta_DHKV = kda(q, k, v, decay_THK, beta_TH, layout, delta_DHKV)
        return self._output(o_THV, gate_TJ), KDAState(conv_DWC, delta_DHKV)

    def step(self, x_BD: Tensor, state: KDAState) -> Tensor:
        """One token of each row; `state` is updated in place."""
        if self._kernel is not None and native.usable(x_BD, *state):
            return product(kda_layer_step(product(x_BD, self.input_ID), self._kernel, *state), self.output_DJ)
        return self.step_torch(x_BD, state)

    def step_torch(self, x_BD: Tensor, state: KDAState) -> Tensor:
        """`step` from the single operations."""
        qkv_BC, gate_BJ, decay_BHK, beta_BH = self._project(x_BD)
        q, k, v = self._split(short_conv_step(qkv_BC, self.conv_CW, state.conv_DWC))
        return self._output(kda_step(q, k, v, decay_BHK, beta_BH, state.delta_DHKV), gate_BJ)

    @cached_property
    def _kernel(self) -> KDAWeights | None:
        weights = KDAWeights(
            conv_WC=self.conv_CW.T.contiguous(),
            decay_up_RJ=self.decay_up_JR.T.contiguous(),
            decay_bias_J=self.decay_bias_J,
            rate_H=self.A_log_H.clamp(max=A_LOG_MAX).exp(),
            norm_K=self.norm_V,
            g_min=self.g_min,
            eps=self.eps,
        )
        return weights if weights.fits else None

    def _project(self, x_ND: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        inner, rank = self.decay_up_JR.shape
        qkv, gate, decay, beta = product(x_ND, self.input_ID).split((3 * inner, inner, rank, self.heads), -1)
        z = (product(decay, self.decay_up_JR) + self.decay_bias_J).unflatten(-1, (self.heads, -1))
        return qkv, gate, kda_gate(z, self.A_log_H, self.g_min), torch.sigmoid(beta)

    def _split(self, qkv_NC: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        qkv = qkv_NC.unflatten(-1, (3, self.heads, -1))
        q, k = l2norm(qkv[:, :2]).unbind(1)
        return q * qkv.shape[-1] ** -0.5, k, qkv[:, 2]

    def _output(self, o_NHV: Tensor, gate_NJ: Tensor) -> Tensor:
        normed_NJ = rms_norm(o_NHV, self.norm_V, self.eps).flatten(-2)
        return product(torch.sigmoid(gate_NJ) * normed_NJ, self.output_DJ)


class ShortConv(nn.Module):
    """Weight of a depthwise causal convolution, in the public [channels, 1, width] shape."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(channels, 1, width))


class KDA(nn.Module):
    """The parameters under their public names."""

    def __init__(self, config: K3Config) -> None:
        super().__init__()
        d, self.heads, head_dim = config.hidden_size, config.num_attention_heads, config.linear_head_dim
        self.eps, self.g_min = config.rms_norm_eps, config.gate_lower_bound
        inner, width = self.heads * head_dim, config.short_conv_kernel_size
        self.q_proj = nn.Linear(d, inner, bias=False)
        self.k_proj = nn.Linear(d, inner, bias=False)
        self.v_proj = nn.Linear(d, inner, bias=False)
        self.q_conv1d = ShortConv(inner, width)
        self.k_conv1d = ShortConv(inner, width)
        self.v_conv1d = ShortConv(inner, width)
        self.f_a_proj = nn.Linear(d, config.decay_rank, bias=False)
        self.f_b_proj = nn.Linear(config.decay_rank, inner, bias=False)
        self.b_proj = nn.Linear(d, self.heads, bias=False)
        self.A_log = nn.Parameter(torch.zeros(self.heads))
        self.dt_bias = nn.Parameter(torch.zeros(inner))
        self.g_proj = nn.Linear(d, inner, bias=False)
        self.o_norm = RMSNorm(head_dim, config.rms_norm_eps)
        self.o_proj = nn.Linear(inner, d, bias=False)

    def fused(self) -> FusedKDA:
        """The layer ready to compute; gradients flow back to the parameters."""
        inputs = (self.q_proj, self.k_proj, self.v_proj, self.g_proj, self.f_a_proj, self.b_proj)
        return FusedKDA(
            input_ID=torch.cat([p.weight for p in inputs]),
            conv_CW=torch.cat([c.weight for c in (self.q_conv1d, self.k_conv1d, self.v_conv1d)]).squeeze(1),
            decay_up_JR=self.f_b_proj.weight,
            decay_bias_J=self.dt_bias,
            A_log_H=self.A_log,
            norm_V=self.o_norm.weight,
            output_DJ=self.o_proj.weight,
            heads=self.heads,
            eps=self.eps,
            g_min=self.g_min,
        )

    def forward(self, x_TD: Tensor, layout: DocLayout) -> Tensor:
        """[T, D] of whole documents."""
        return self.fused()(x_TD, layout)

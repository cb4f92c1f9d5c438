"""All of a KDA layer between its input and output products, in C: packed documents with gradients, and steps of one token.

The reference is the PyTorch form in `model.kda`. Packed and stepped tokens round alike, which a quantised model needs.
Shapes: T tokens, D documents, B rows, H heads, K key = value width, J = HK, C = 3J, R decay rank, I = 4J + R + H.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ninefold.core.layout import DocLayout
from ninefold.model.ops import native
from ninefold.model.ops.conv import NATIVE_WIDTH
from ninefold.model.ops.kda_chunk import TILE

WIDE = 16
"""The kernel's products write so many columns at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KDAWeights:
    """A KDA layer's own weights, laid out for the kernel."""

    conv_WC: Tensor
    decay_up_RJ: Tensor
    decay_bias_J: Tensor
    rate_H: Tensor
    """e^A, the steepness of the gate."""
    norm_K: Tensor
    g_min: float
    eps: float

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self.conv_WC, self.decay_up_RJ, self.decay_bias_J, self.rate_H, self.norm_K

    @property
    def fits(self) -> bool:
        """Whether the kernel takes a layer of this shape."""
        square = len(self.norm_K) * len(self.rate_H) == len(self.decay_bias_J)
        return native.usable(*self.tensors) and square and len(self.norm_K) % WIDE == 0 and len(self.conv_WC) == NATIVE_WIDTH

    def check(self, x_TI: Tensor, window_DWC: Tensor, state_DHKK: Tensor) -> tuple[int, int, int]:
        """(H, R, K), after a look at every shape: the kernel reads raw memory."""
        (rank, inner), (D, H, K, V) = self.decay_up_RJ.shape, state_DHKK.shape
        assert K == V == len(self.norm_K)
        assert inner == H * K
        assert x_TI.shape[1] == 4 * inner + rank + H
        assert window_DWC.shape == (D, NATIVE_WIDTH - 1, 3 * inner)
        return H, rank, K


def kda_layer(
    x_TI: Tensor,
    weights: KDAWeights,
    window_DWC: Tensor,
    state_DHKK: Tensor,
    layout: DocLayout,
    cut: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """[T, J] of whole documents or continuations, from convolution to output gate; and final_DHKK.

    `x_TI` holds q, k, v, output gate, decay down and β; `window_DWC` the inputs before each document, oldest first. The states
    after `cut[0]` ([D], int64) tokens of each document are written to `cut[1]` [D, H, K, K], without gradients.
    """
    weights.check(x_TI, window_DWC, state_DHKK)
    assert len(x_TI) == layout.tokens
    assert len(state_DHKK) == layout.documents
    assert cut is None or (len(cut[0]) == layout.documents and cut[0].dtype == torch.int64 and cut[1].shape == state_DHKK.shape)
    return _Layer.apply(x_TI, *weights.tensors, window_DWC, state_DHKK, layout, weights, cut or (None, None))


def kda_layer_step(x_BI: Tensor, weights: KDAWeights, window_BWC: Tensor, state_BHKK: Tensor) -> Tensor:
    """[B, J] one token of each row; window and state move on in place."""
    shape = weights.check(x_BI, window_BWC, state_BHKK)
    assert len(x_BI) == len(state_BHKK)
    y_BJ = x_BI.new_empty(len(x_BI), len(weights.decay_bias_J))
    constants = (weights.g_min, weights.eps)
    native.call("kda_layer_step", x_BI, *weights.tensors, window_BWC, state_BHKK, y_BJ, len(x_BI), *shape, *constants)
    return y_BJ


class _Layer(torch.autograd.Function):
    """Three kernels: what the delta rule takes, its recurrence, what becomes of its output."""

    @staticmethod
    def forward(ctx: Any, x_TI: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        *own, window_DWC, state_DHKK, layout, weights, cut = rest
        x_TI, window_DWC = x_TI.contiguous(), window_DWC.contiguous()
        (D, H, K, _), T = state_DHKK.shape, len(x_TI)
        ctx.constants = (H, len(weights.decay_up_RJ), K, weights.g_min, weights.eps)
        starts = torch.from_numpy(layout.cu_seqlens)
        made = tuple(x_TI.new_empty(5, T, H, K))
        q, k, v, _, g = made
        beta_TH, o_THK, y_TJ = x_TI.new_empty(T, H), torch.empty_like(v), x_TI.new_empty(T, H * K)
        final_DHKK = state_DHKK.clone(memory_format=torch.contiguous_format)
        native.call("kda_prepare", x_TI, *own, window_DWC, starts, *made, beta_TH, D, *ctx.constants)
        saved = None
        if any(ctx.needs_input_grad):
            saved = q.new_empty(int((-(-layout.lengths // TILE)).sum()), H, K, K)
        native.call("kda_forward", q, k, v, g, beta_TH, starts, o_THK, final_DHKK, saved, *cut, D, H, K, K)
        native.call("kda_finish", x_TI, *own, o_THK, y_TJ, T, *ctx.constants)
        ctx.save_for_backward(x_TI, *own, window_DWC, starts, *made, beta_TH, o_THK, saved)
        return y_TJ, final_DHKK

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        x_TI, *own, window_DWC, starts, q, k, v, z, g, beta_TH, o_THK, saved = ctx.saved_tensors
        d_y_TJ, d_state_DHKK = grads[0].contiguous(), grads[1].clone(memory_format=torch.contiguous_format)
        H, rank, K, *_ = ctx.constants
        T, D = len(x_TI), len(window_DWC)
        d_x_TI, d_window_DWC = torch.zeros_like(x_TI), torch.zeros_like(window_DWC)
        d_conv, d_bias, d_rate, d_norm = (torch.zeros_like(own[n]) for n in (0, 2, 3, 4))
        d_q, d_k, d_v, d_g, d_o = x_TI.new_empty(5, T, H, K)
        d_beta_TH = torch.empty_like(beta_TH)
        scratch = x_TI.new_empty(TILE * (K * K + 3 * K) + 2 * K * K)
        native.call("kda_finish_backward", x_TI, *own, o_THK, d_y_TJ, d_o, d_x_TI, d_norm, T, *ctx.constants)
        d_inputs = (d_q, d_k, d_v, d_g, d_beta_TH)
        native.call("kda_backward", q, k, v, g, beta_TH, starts, saved, d_o, d_state_DHKK, *d_inputs, scratch, D, H, K, K)
        # The kernel leaves the gradient of z in its place: a copy, so that a second backward finds z itself.
        d_z_TJ = z.flatten(1).clone()
        d_own = (d_conv, d_bias, d_rate)
        made = (d_z_TJ, g, beta_TH, *d_inputs)
        native.call(
            "kda_prepare_backward", x_TI, *own, window_DWC, starts, *made, d_x_TI, d_window_DWC, *d_own, D, *ctx.constants
        )
        down = slice(4 * H * K, 4 * H * K + rank)
        d_x_TI[:, down] = d_z_TJ @ own[1].T
        d_up_RJ = x_TI[:, down].T @ d_z_TJ
        return d_x_TI, d_conv, d_up_RJ, d_bias, d_rate, d_norm, d_window_DWC, d_state_DHKK, None, None, None

"""Short causal depthwise convolution with SiLU, over packed documents; its state is the last W − 1 inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import silu

from ninefold.core.layout import DocLayout
from ninefold.model.ops import native

NATIVE_WIDTH = 4
"""The only width with a C kernel, K3's."""


def short_conv(x_TC: Tensor, weight_CW: Tensor, layout: DocLayout, initial_DWC: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """SiLU of the causal convolution of width W (4 in K3); the last column of the weight meets the current token.

    `initial_DWC` [D, W − 1, C] holds the inputs before each document, oldest first (zeros if none).
    Returns y_TC and the same for what follows, final_DWC.
    """
    channels, width = weight_CW.shape
    if initial_DWC is None:
        initial_DWC = x_TC.new_zeros(layout.documents, width - 1, channels)
    assert x_TC.shape == (layout.tokens, channels)
    assert initial_DWC.shape == (layout.documents, width - 1, channels)
    if width == NATIVE_WIDTH and native.usable(x_TC, weight_CW, initial_DWC):
        y_TC = _ConvNative.apply(x_TC, weight_CW, initial_DWC, layout)
    else:
        y_TC = short_conv_torch(x_TC, weight_CW, layout, initial_DWC)
    return y_TC, last_inputs(x_TC, layout, initial_DWC)


@torch.no_grad()
def short_conv_step(x_BC: Tensor, weight_CW: Tensor, state_BWC: Tensor) -> Tensor:
    """One token for each of B sequences: shifts `state_BWC` [B, W − 1, C] in place and returns y_BC.

    Bit for bit what `short_conv` computes: a quantised model rounds its experts' inputs, and must round them alike.
    """
    channels, width = weight_CW.shape
    window = torch.cat([state_BWC, x_BC[:, None]], 1)
    assert state_BWC.shape == (len(x_BC), width - 1, channels)
    if width == NATIVE_WIDTH and native.usable(x_BC, weight_CW, state_BWC) and state_BWC.is_contiguous():
        y_BC, starts = x_BC.new_empty(x_BC.shape), torch.arange(len(x_BC) + 1)
        inputs = (x_BC.contiguous(), weight_CW.T.contiguous(), state_BWC, starts)
        native.call("conv_forward", *inputs, y_BC, len(x_BC), channels)
    else:
        y_BC = silu((window * weight_CW.T).sum(1))
    state_BWC.copy_(window[:, 1:])
    return y_BC


def short_conv_torch(x_TC: Tensor, weight_CW: Tensor, layout: DocLayout, initial_DWC: Tensor) -> Tensor:
    """The y_TC of `short_conv` in PyTorch, on any device."""
    back = weight_CW.shape[1] - 1
    # Every document is preceded by `back` rows of its own, so one run of slices serves all of them.
    slot_T = torch.from_numpy(np.arange(layout.tokens) + back * (layout.document + 1)).to(x_TC.device)
    starts_D = layout.cu_seqlens[:-1] + back * np.arange(layout.documents)
    before_DW = torch.from_numpy(starts_D[:, None] + np.arange(back)).to(x_TC.device)
    inputs = x_TC.new_zeros(len(x_TC) + back * layout.documents, x_TC.shape[1]).index_copy(0, slot_T, x_TC)
    inputs = inputs.index_copy(0, before_DW.flatten(), initial_DWC.to(x_TC.dtype).flatten(0, 1))
    span = len(inputs) - back
    mixed = torch.stack([inputs[i : i + span] * weight_CW[:, i] for i in range(back + 1)]).sum(0)
    return silu(mixed.index_select(0, slot_T - back))


def last_inputs(x_TC: Tensor, layout: DocLayout, initial_DWC: Tensor, lengths: NDArray[np.int64] | None = None) -> Tensor:
    """[D, W − 1, C] what a convolution that goes on must know, after the first `lengths` tokens of each document or all of
    them; short documents keep some of their initial inputs."""
    back = initial_DWC.shape[1]
    place_DW = (layout.lengths if lengths is None else lengths)[:, None] - back + np.arange(back)
    in_x = torch.from_numpy(layout.cu_seqlens[:-1, None] + place_DW.clip(min=0)).to(x_TC.device)
    in_initial = torch.from_numpy((back + place_DW).clip(max=back - 1)).to(x_TC.device)
    from_x = x_TC.index_select(0, in_x.flatten()).view(initial_DWC.shape)
    from_initial = initial_DWC.to(x_TC.dtype).take_along_dim(in_initial[..., None], 1)
    return torch.where(torch.from_numpy(place_DW >= 0).to(x_TC.device)[..., None], from_x, from_initial)


class _ConvNative(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_TC: Tensor, weight_CW: Tensor, initial_DWC: Tensor, layout: DocLayout) -> Tensor:
        inputs = (x_TC.contiguous(), weight_CW.T.contiguous(), initial_DWC.contiguous(), torch.from_numpy(layout.cu_seqlens))
        y_TC = torch.empty_like(inputs[0])
        native.call("conv_forward", *inputs, y_TC, layout.documents, x_TC.shape[1])
        ctx.save_for_backward(*inputs)
        return y_TC

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        x_TC, weight_WC, initial_DWC, starts = ctx.saved_tensors
        d_inputs = [torch.zeros_like(x) for x in (x_TC, weight_WC, initial_DWC)]
        shape = (len(initial_DWC), x_TC.shape[1])
        native.call("conv_backward", x_TC, weight_WC, initial_DWC, starts, grads[0].contiguous(), *d_inputs, *shape)
        return d_inputs[0], d_inputs[1].T, d_inputs[2], None

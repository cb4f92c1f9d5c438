"""Short causal depthwise convolution with SiLU, over packed documents; its state is the last W − 1 inputs."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import silu

from ninefold.core.layout import DocLayout


def short_conv(x_TC: Tensor, weight_CW: Tensor, layout: DocLayout, initial_DWC: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """SiLU of the causal convolution of width W (4 in K3); the last column of the weight meets the current token.

    `initial_DWC` [D, W − 1, C] holds the inputs before each document, oldest first (zeros if none).
    Returns y_TC and the same for what follows, final_DWC.
    """
    back = weight_CW.shape[1] - 1
    device = x_TC.device
    # Every document is preceded by `back` rows of its own, so one run of slices serves all of them.
    slot_T = torch.from_numpy(np.arange(layout.tokens) + back * (layout.document + 1)).to(device)
    starts_D = layout.cu_seqlens[:-1] + back * np.arange(layout.documents)
    before_DW = torch.from_numpy(starts_D[:, None] + np.arange(back)).to(device)
    after_DW = before_DW + torch.from_numpy(layout.lengths).to(device)[:, None]
    inputs = x_TC.new_zeros(len(x_TC) + back * layout.documents, x_TC.shape[1]).index_copy(0, slot_T, x_TC)
    if initial_DWC is not None:
        inputs = inputs.index_copy(0, before_DW.flatten(), initial_DWC.to(x_TC.dtype).flatten(0, 1))
    span = len(inputs) - back
    mixed = sum((inputs[i : i + span] * weight_CW[:, i] for i in range(back + 1)), start=x_TC.new_zeros(()))
    final = inputs.index_select(0, after_DW.flatten()).unflatten(0, (layout.documents, back))
    return silu(mixed.index_select(0, slot_T - back)), final


@torch.no_grad()
def short_conv_step(x_BC: Tensor, weight_CW: Tensor, state_BWC: Tensor) -> Tensor:
    """One token for each of B sequences: shifts `state_BWC` [B, W − 1, C] in place and returns y_BC."""
    window = torch.cat([state_BWC, x_BC[:, None]], 1)
    state_BWC.copy_(window[:, 1:])
    return silu((window * weight_CW.T).sum(1))

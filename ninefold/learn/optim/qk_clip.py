"""QK-clip: no attention logit of a head grows past a threshold, because the head's weights are scaled back when one did."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ninefold.learn.sharding import local, rank_of, rows_of_ranks
from ninefold.model.mla import MLA


def record_attention(model: nn.Module, on: bool) -> None:
    """Let every MLA note its heads' largest logits in the forwards to come, or stop and forget them."""
    for layer in mla_layers(model):
        layer.recording = on
        layer.max_logit_H = None


def mla_layers(model: nn.Module) -> list[MLA]:
    return [module for module in model.modules() if isinstance(module, MLA)]


def recorded_logits(model: nn.Module) -> Tensor:
    """[MLA layers, H] largest attention logits since recording began, at least 0; 0 where a layer saw no token."""
    layers = mla_layers(model)
    unseen = [torch.zeros(layer.heads, device=layer.q_b_proj.weight.device) for layer in layers]
    return torch.stack([none_H if layer.max_logit_H is None else layer.max_logit_H for layer, none_H in zip(layers, unseen)])


@torch.no_grad()
def qk_clip(model: nn.Module, largest_LH: Tensor, threshold: float) -> int:
    """Scale back every head whose largest logit exceeded `threshold`; how many those were.

    With γ = threshold / max: q_nope and k_nope times √γ each, q_rope times γ, since the key it meets is shared by all heads
    and stays: so both parts of the logit, and all of it, shrink by γ (K2, QK-Clip; the report keeps it).
    """
    clipped = 0
    for layer, largest_H in zip(mla_layers(model), largest_LH, strict=True):
        gamma_H = torch.where(largest_H > threshold, threshold / largest_H, 1.0)
        if bool((gamma_H < 1).any()):
            _rescale(layer, gamma_H)
            clipped += int((gamma_H < 1).sum())
    return clipped


def _rescale(layer: MLA, gamma_H: Tensor) -> None:
    root_H, same_H = gamma_H.sqrt(), torch.ones_like(gamma_H)
    _scale_rows(layer.q_b_proj.weight, (root_H, layer.nope), (gamma_H, layer.rope))
    _scale_rows(layer.kv_b_proj.weight, (root_H, layer.nope), (same_H, layer.value))


def _scale_rows(weight_RC: Tensor, *parts: tuple[Tensor, int]) -> None:
    """Each head's rows are parts, one behind the other: (a factor for each head, rows of the part)."""
    factor_R = torch.cat([factor_H[:, None].expand(-1, rows) for factor_H, rows in parts], 1).flatten()
    mine = rows_of_ranks(weight_RC)[rank_of(weight_RC)]
    local(weight_RC).mul_(factor_R[mine.start : mine.stop, None].to(weight_RC.dtype))

"""Rotary positions: pairs of channels turned by angles that grow with the token's place.

Shapes: N tokens, H heads, Q channels of a head.
"""

from __future__ import annotations

import torch
from torch import Tensor

Turn = tuple[Tensor, Tensor]
"""Cosines and sines, [N, Q / 2]."""


def rotations(places_N: Tensor, width: int, theta: float) -> Turn:
    """Cosines and sines [N, Q / 2] of `width` = Q channels at these places; pair i turns by place · theta^(−2i / Q)."""
    rate = theta ** -(torch.arange(0, width, 2, dtype=torch.float32, device=places_N.device) / width)
    angle = places_N[:, None].float() * rate
    return angle.cos(), angle.sin()


def rotate(x_NHQ: Tensor, turn: Turn) -> Tensor:
    """Turn each pair of channels (c, c + Q / 2) by the angle of the row's place (Llama's layout)."""
    cos, sin = (part[:, None].to(x_NHQ.dtype) for part in turn)
    a, b = x_NHQ.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def rotate_neighbours(x_NHQ: Tensor, turn: Turn) -> Tensor:
    """Turn each pair of channels (2c, 2c + 1) by the angle of the row's place (the layout of DeepSeek's and K2's MLA)."""
    cos, sin = (part[:, None].to(x_NHQ.dtype) for part in turn)
    a, b = x_NHQ[..., ::2], x_NHQ[..., 1::2]
    return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)

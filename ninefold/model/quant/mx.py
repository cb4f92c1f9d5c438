"""MXFP4 and MXFP8 (OCP Microscaling): blocks of 32 along the last dimension share one power-of-two scale.

The one quantiser of the project: training (`fake_quant`), generation and export (`quantize`, `dequantize`) round alike,
bit for bit, and alike with torchao's `to_mx`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from ninefold.core.errors import UserError
from ninefold.model.ops import native

BLOCK = 32
Rule = Literal["floor", "ceil", "even", "rceil"]
"""How a block's scale follows from its largest magnitude: OCP's floor, or one of three that avoid saturation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """An element type: sign, exponent, mantissa; subnormals, no infinities."""

    name: str
    mantissa: int
    """Stored mantissa bits."""
    bias: int
    """Exponent bias."""
    top: int
    """Exponent of the largest value."""
    largest: float


MXFP4 = Format(name="mxfp4", mantissa=1, bias=1, top=2, largest=6.0)
"""E2M1: 0, 0.5, 1, 1.5, 2, 3, 4, 6."""
MXFP8 = Format(name="mxfp8", mantissa=3, bias=7, top=8, largest=448.0)
"""E4M3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantized:
    """A tensor [..., N] as it lies on disk."""

    codes: Tensor
    """uint8: MXFP8 [..., N]; MXFP4 [..., N/2], the even element in the low nibble."""
    scales: Tensor
    """uint8 [..., N/32], E8M0: 2^(byte − 127); 255 is NaN."""
    format: Format


def quantize(x: Tensor, format: Format, rule: Rule = "floor") -> Quantized:
    """Round [..., N] to the format, ties to even, saturating at its largest value. UserError unless 32 divides N.

    A block that holds a NaN becomes NaN as a whole.
    """
    blocks = _blocks(x.detach())
    peak = blocks.abs().amax(-1, keepdim=True)
    if rule == "rceil":
        byte, scaled = _scale_rceil(blocks, peak, format)
    else:
        byte = _scale_byte(peak, format, rule)
        # DEVIATION from OCP, as torchao does: byte 0 stands for 2^−127, yet values are divided by 2^−126.
        scaled = blocks / (byte << 23).view(torch.float32).clamp(min=2.0**-126)
    scaled = scaled.clamp(-format.largest, format.largest)
    codes = scaled.to(torch.float8_e4m3fn).view(torch.uint8) if format is MXFP8 else pack(_encode_e2m1(scaled))
    return Quantized(codes=codes.flatten(-2), scales=byte.to(torch.uint8).squeeze(-1), format=format)


def dequantize(quantized: Quantized, dtype: torch.dtype = torch.float32) -> Tensor:
    """[..., N] values of the codes times their block's scale."""
    codes, exponent = quantized.codes, quantized.scales.to(torch.int32)
    if quantized.format is MXFP8:
        values = codes.view(torch.float8_e4m3fn).to(torch.float32)
    else:
        values = torch.tensor(_E2M1, device=codes.device)[unpack(codes).long()]
    scale = (exponent << 23).view(torch.float32)
    scale = torch.where(exponent == 0, 2.0**-127, torch.where(exponent == 255, torch.nan, scale))
    return (values.unflatten(-1, (-1, BLOCK)) * scale[..., None]).flatten(-2).to(dtype)


def fake_quant(x: Tensor, format: Format, rule: Rule = "floor") -> Tensor:
    """`dequantize(quantize(x))` in x's dtype, with the gradient passed straight through."""
    return _StraightThrough.apply(x, format, rule)


def pack(nibbles: Tensor) -> Tensor:
    """[..., N] codes under 16 → [..., N/2] bytes, the even element in the low nibble."""
    return nibbles[..., ::2] | (nibbles[..., 1::2] << 4)


def unpack(packed: Tensor) -> Tensor:
    """Inverse of `pack`."""
    return torch.stack([packed & 15, packed >> 4], -1).flatten(-2)


class _StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, format: Format, rule: Rule) -> Tensor:  # noqa: ARG004
        if rule == "floor" and native.usable(x):
            return _fake_quant_native(x, format)
        return dequantize(quantize(x, format, rule), x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:  # noqa: ARG004
        return grads[0], None, None


def _fake_quant_native(x: Tensor, format: Format) -> Tensor:
    """Bit for bit `dequantize(quantize(x))` under the floor rule, in one pass."""
    blocks = _blocks(x).contiguous()
    y = torch.empty_like(blocks)
    count = blocks.numel() // BLOCK
    native.call("mx_fake_quant", blocks, y, count, format.mantissa, 1 - format.bias, format.top, format.largest)
    return y.view_as(x)


_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)


def _blocks(x: Tensor) -> Tensor:
    if x.shape[-1] % BLOCK:
        raise UserError(
            f"MX formats need a last dimension that {BLOCK} divides, got shape {tuple(x.shape)}; "
            f"choose a latent and expert width that is a multiple of {BLOCK}"
        )
    return x.to(torch.float32).unflatten(-1, (-1, BLOCK))


def _scale_byte(peak: Tensor, format: Format, rule: Rule) -> Tensor:
    """E8M0 byte (int32) by the exponent field of the largest magnitude."""
    bits = peak.view(torch.int32)
    if rule == "even":
        bits = bits + (1 << (22 - format.mantissa))
    exponent = (bits >> 23) & 255
    if rule == "ceil":
        exponent = exponent + ((bits & 0x7FFFFF) > 0).to(torch.int32)
    return torch.where(peak.isnan(), 255, (exponent - format.top).clamp(0, 255)).to(torch.int32)


def _scale_rceil(blocks: Tensor, peak: Tensor, format: Format) -> tuple[Tensor, Tensor]:
    """Byte of the least power of two that avoids saturation, and the scaled values (torchao's `_to_mx_rceil`)."""
    descale = peak / format.largest
    byte = (descale.log2().ceil().clamp(-127, 127) + 127).nan_to_num(0.0)
    byte = torch.where(descale.isnan(), 255.0, torch.where(descale.isinf(), 254.0, byte))
    factor = torch.where(byte == 0, 1.0, torch.where(byte == 255, descale, (127.0 - byte).exp2()))
    return byte.to(torch.int32), blocks * factor


def _encode_e2m1(x: Tensor) -> Tensor:
    """uint8 codes under 16 of values within ±6, ties to even."""
    bits = x.view(torch.int32)
    sign = (bits >> 28) & 8
    magnitude = bits & 0x7FFFFFFF
    # Keep one mantissa bit: add just under half of the last place (half where it is odd), rebias from 127 to 1, shift.
    normal = (magnitude - (126 << 23) + 0x1FFFFF + ((magnitude >> 22) & 1)) >> 22
    subnormal = (x.abs() * 2.0).round().to(torch.int32)
    return (torch.where(x.abs() < 1.0, subnormal, normal) & 7 | sign).to(torch.uint8)

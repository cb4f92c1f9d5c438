"""MXFP4 and MXFP8: bit-equal with torchao, idempotent, one grid for training and export."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from ninefold.core.errors import UserError
from ninefold.model.quant.mx import MXFP4, MXFP8, Format, Rule, dequantize, fake_quant, pack, quantize, unpack

FORMATS = pytest.mark.parametrize("format", [MXFP4, MXFP8], ids=lambda f: f.name)
REFEREES = Path(__file__).parents[3] / "runs" / "referees"
RULES: tuple[Rule, ...] = ("floor", "ceil", "even", "rceil")


@pytest.mark.parametrize("rule", RULES)
@FORMATS
def test_golden_blocks(golden: Path, format: Format, rule: Rule) -> None:
    blocks = load_file(golden / "mx" / "mx_blocks.safetensors")
    name = f"torchao.{'mxfp4' if format is MXFP4 else 'mxfp8_e4m3'}.{rule}"
    got = quantize(blocks["x"], format, rule)
    assert torch.equal(got.scales.squeeze(-1), blocks[f"{name}.scale_e8m0"])
    assert torch.equal(got.codes, blocks[f"{name}.codes"])
    want = blocks[f"{name}.dequant"]
    for value in (dequantize(got), fake_quant(blocks["x"], format, rule)):
        assert torch.equal(value.isnan(), want.isnan())
        assert torch.equal(value.nan_to_num().view(torch.int32), want.nan_to_num().view(torch.int32))


@pytest.mark.referee
@pytest.mark.parametrize("rule", RULES)
@FORMATS
@given(seed=st.integers(0, 2**31), exponent=st.integers(-140, 120), spread=st.sampled_from([0.1, 1.0, 8.0]))
def test_torchao_rounds_alike(format: Format, rule: Rule, seed: int, exponent: int, spread: float) -> None:
    """Codes and scales, bit for bit, of blocks of every size down to subnormals, zeros among them."""
    if str(REFEREES) not in sys.path:
        sys.path.append(str(REFEREES))
    mx = pytest.importorskip("torchao.prototype.mx_formats.mx_tensor", reason="make referees installs torchao")
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(6, 64, generator=generator) * (torch.randn(6, 64, generator=generator) * spread).exp() * 2.0**exponent
    x[torch.rand(6, 64, generator=generator) < 0.1] = 0.0
    x[0, :32] = 0.0
    element = torch.float4_e2m1fn_x2 if format is MXFP4 else torch.float8_e4m3fn
    scale, codes = mx.to_mx(x, element, 32, mx.ScaleCalculationMode(rule))
    got = quantize(x, format, rule)
    assert torch.equal(got.scales, scale.view(torch.uint8))
    assert torch.equal(got.codes, codes.view(torch.uint8))


def test_golden_decode_tables(golden: Path) -> None:
    tables = json.loads((golden / "mx" / "decode_tables.json").read_text())
    x = torch.tensor(tables["e2m1"] * 2)
    assert torch.equal(dequantize(quantize(x, MXFP4)), x)
    finite = torch.tensor([float(v) for v in tables["e4m3"] if v != "nan"])
    for start in range(0, len(finite) - 32, 32):
        block = finite[start : start + 31].tolist()
        x = torch.tensor([*block, 448.0])
        assert torch.equal(dequantize(quantize(x, MXFP8)), x)


@FORMATS
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31), exponent=st.integers(-110, 110), spread=st.sampled_from([0.1, 1.0, 8.0]))
def test_idempotent_and_equal_to_export(format: Format, seed: int, exponent: int, spread: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(7, 96, generator=generator) * (torch.randn(7, 96, generator=generator) * spread).exp() * 2.0**exponent
    x = x.clamp(-(2.0**126), 2.0**126)
    once = fake_quant(x, format)
    exported = quantize(x, format)
    assert torch.equal(once, dequantize(exported))
    assert torch.equal(fake_quant(once, format), once)
    again = quantize(dequantize(exported), format)
    nonzero = exported.scales[dequantize(exported).unflatten(-1, (-1, 32)).abs().amax(-1) > 0]
    assert torch.equal(again.codes, exported.codes)
    assert torch.equal(again.scales[dequantize(exported).unflatten(-1, (-1, 32)).abs().amax(-1) > 0], nonzero)


@FORMATS
def test_rounding_error_bound(format: Format) -> None:
    x = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    peak = x.unflatten(-1, (-1, 32)).abs().amax(-1, keepdim=True).expand(-1, -1, 32).flatten(-2)
    scale = 2.0 ** (peak.log2().floor() - format.top)
    step = scale * 2.0 ** (format.top - format.mantissa)
    saturated = x.abs() > format.largest * scale
    error = (fake_quant(x, format) - x).abs()
    assert (error[~saturated] <= step[~saturated] / 2).all()
    assert torch.equal(error[saturated], (x.abs() - format.largest * scale)[saturated])


@FORMATS
def test_gradient_passes_straight_through(format: Format) -> None:
    x = (100 * torch.randn(3, 64, generator=torch.Generator().manual_seed(1))).requires_grad_()
    weight = torch.randn(3, 64, generator=torch.Generator().manual_seed(2))
    (fake_quant(x, format) * weight).sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, weight)


@FORMATS
def test_bfloat16_in_bfloat16_out(format: Format) -> None:
    x = torch.randn(5, 32, generator=torch.Generator().manual_seed(3)).bfloat16()
    assert torch.equal(fake_quant(x, format).float(), fake_quant(x.float(), format))


def test_pack_is_low_nibble_first_and_invertible() -> None:
    nibbles = torch.arange(32, dtype=torch.uint8) % 16
    assert int(pack(nibbles)[0]) == 0x10
    assert torch.equal(unpack(pack(nibbles)), nibbles)


def test_width_must_be_a_multiple_of_the_block() -> None:
    with pytest.raises(UserError, match="multiple of 32"):
        quantize(torch.zeros(2, 48), MXFP4)

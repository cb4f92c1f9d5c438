"""Attention residuals: golden stacks with gradients; direct, two-phase and fused forms agree."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from ninefold.model.attnres import Site, stream
from ninefold.model.ops import native
from ninefold.model.ops.attnres import FinishedBlocks, Source, attention_residual, mix, read
from ninefold.model.ops.naive import attention_residual_naive
from ninefold.model.ops.norm import rms_norm_torch

CASES = {"L6_S2_sub1": (2, 1), "L5_S2_sub2_attn_and_ffn_sites": (2, 2), "full_S1": (1, 1)}
"""Name → layers per block, sites per layer."""


@pytest.mark.parametrize("two_phase", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
@pytest.mark.parametrize("name", CASES)
def test_golden_stack(golden: Path, name: str, dtype: torch.dtype, tolerance: float, two_phase: bool) -> None:
    case = load_file(golden / "attnres" / f"{name}.safetensors")
    parameters = ("embedding", "W_f", "norm_weight", "pseudo_query", "out_norm_weight", "out_query")
    leaf = {n: case[n].to(dtype).requires_grad_() for n in parameters}
    per_block = CASES[name][0] * CASES[name][1]
    finished, partial, hidden = [leaf["embedding"]], None, []
    for site, W in enumerate(leaf["W_f"]):
        if site % per_block == 0 and partial is not None:
            finished, partial = [*finished, partial], None
        query, norm = leaf["pseudo_query"][site], leaf["norm_weight"][site]
        if two_phase:
            h = FinishedBlocks.of(finished, query[None], norm[None]).site(0, partial)
        else:
            h = attention_residual(finished + ([] if partial is None else [partial]), query, norm)
        hidden.append(h)
        f = torch.tanh(h @ W.T)
        partial = f if partial is None else partial + f
    assert partial is not None
    out = attention_residual([*finished, partial], leaf["out_query"], leaf["out_norm_weight"])
    torch.testing.assert_close(torch.stack(hidden).detach().double(), case["h"], rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(out.detach().double(), case["out"], rtol=tolerance, atol=tolerance)
    grads = torch.autograd.grad((out * case["w"]).sum(), list(leaf.values()))
    for got, n in zip(grads, parameters):
        torch.testing.assert_close(got.double(), case[f"grad_{n}"], rtol=tolerance, atol=tolerance)


@settings(max_examples=30, deadline=None)
@given(sources=st.integers(1, 6), tokens=st.integers(1, 9), width=st.integers(1, 70), scale=st.sampled_from([1e-4, 1.0, 1e4]))
def test_reading_equals_naive(sources: int, tokens: int, width: int, scale: float) -> None:
    generator = torch.Generator().manual_seed(sources * 1000 + tokens * 100 + width)
    made = [scale * torch.randn(tokens, width, generator=generator, dtype=torch.float64) for _ in range(sources)]
    query, norm, own = torch.randn(3, width, generator=generator, dtype=torch.float64)
    # Scores of order 1: of a saturated mixture fp32 keeps the weights, but not the gradient's tiny 1 − p.
    query /= width**0.5
    d = torch.randn(tokens, width, generator=generator, dtype=torch.float64)

    def run(dtype: torch.dtype, naive: bool) -> list[torch.Tensor]:
        leaves = [x.to(dtype).requires_grad_() for x in (query, norm, own, *made)]
        q, n, o, *values = leaves
        if naive:
            y = rms_norm_torch(attention_residual_naive(values, q, n, 1e-5), o, 1e-5)
        else:
            y = read([Source.of(v, 1e-5) for v in values], q * n, o)
        grads = torch.autograd.grad((y * d.to(dtype)).sum(), leaves, allow_unused=True)
        return [y.detach(), *(torch.zeros_like(x) if g is None else g for g, x in zip(grads, leaves))]

    want = run(torch.float64, naive=True)
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 2e-4)):
        for got, expected in zip(run(dtype, naive=False), want, strict=True):
            bound = tolerance * max(float(expected.abs().max()), 1e-2)
            assert float((got.double() - expected).abs().max()) <= bound


@pytest.mark.parametrize(("dtype", "scale", "tolerance"), [(torch.float64, 1, 1e-13), (torch.float32, 1 / 8, 1e-6)])
def test_two_phase_equals_direct_for_all_sites_of_a_block(dtype: torch.dtype, scale: float, tolerance: float) -> None:
    """In float32 with scores of order 1: those of order 10 it knows to 1e-6, and the weights no better."""
    generator = torch.Generator().manual_seed(3)
    finished = [torch.randn(11, 64, generator=generator, dtype=dtype) for _ in range(4)]
    partial = 30 * torch.randn(11, 64, generator=generator, dtype=dtype)
    queries, norms = (make(6, 64, generator=generator, dtype=dtype) for make in (torch.randn, torch.rand))
    phase_one = FinishedBlocks.of(finished, scale * queries, norms)
    for s in range(6):
        for running in (None, partial):
            direct = attention_residual(finished + ([] if running is None else [running]), scale * queries[s], norms[s])
            atol = tolerance * float(direct.abs().max())
            torch.testing.assert_close(phase_one.site(s, running), direct, rtol=tolerance, atol=atol)


def test_kept_inverse_rms_changes_nothing() -> None:
    values = [torch.randn(5, 16, generator=torch.Generator().manual_seed(n)) for n in range(3)]
    query = torch.linspace(-1, 1, 16)
    sources = [Source.of(v, 1e-5) for v in values]
    first = mix(sources, query)
    assert torch.equal(mix(sources, query), first)
    torch.testing.assert_close(first, attention_residual(values, query, torch.ones(16)))


def test_zero_query_is_the_mean_and_large_logits_stay_finite() -> None:
    values = [torch.randn(5, 16, generator=torch.Generator().manual_seed(n)) for n in range(3)]
    torch.testing.assert_close(
        attention_residual(values, torch.zeros(16), torch.ones(16)), torch.stack(values).mean(0), rtol=1e-5, atol=1e-6
    )
    assert attention_residual(values, torch.full((16,), 1e4), torch.ones(16)).isfinite().all()


@pytest.mark.skipif(not native.status().available, reason="no C kernels on this machine")
def test_streams_with_and_without_gradients_agree_bit_for_bit() -> None:
    """A quantised model rounds what its experts read: trainer and engine must round alike."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    x, outputs, own = draw(9, 48), [draw(9, 48) for _ in range(7)], draw(48)
    sites = [Site(query_D=draw(48), norm_D=draw(48)) for _ in range(8)]

    def run() -> list[torch.Tensor]:
        residual = stream(x, mixes=True, blocks=3, eps=1e-5)
        reads = []
        for n, y in enumerate(outputs):
            if n in (2, 5):
                residual.close_block()
            reads.append(residual.read(sites[n], own))
            residual.add(y)
        return [*reads, residual.read(sites[7], own), *residual.outputs()]

    with torch.no_grad():
        frozen = run()
    assert all(torch.equal(a, b) for a, b in zip(frozen, run(), strict=True))


def test_bfloat16_mixes_in_float32() -> None:
    values = [torch.randn(5, 16, generator=torch.Generator().manual_seed(n)).bfloat16() for n in range(3)]
    query = torch.linspace(-1, 1, 16).bfloat16()
    got = attention_residual(values, query, torch.ones(16).bfloat16())
    want = attention_residual([v.float() for v in values], query.float(), torch.ones(16))
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.float(), want, rtol=2e-2, atol=2e-2)

"""Segments compose to the whole, on the golden vectors and over gloo ranks, forward and gradients."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from ninefold.core.layout import DocLayout
from ninefold.learn.parallel import World, run_parallel
from ninefold.model.ops.kcp import Segment, kda_parallel, summarise
from ninefold.model.ops.kda import kda, l2norm

HEADS, WIDTH, VALUE = 2, 8, 5


def draw(tokens: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(tokens)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    q, k = (l2norm(normal(tokens, HEADS, WIDTH)) for _ in range(2))
    g = -5 * torch.sigmoid(2 * normal(tokens, HEADS, WIDTH))
    values = (q, k, normal(tokens, HEADS, VALUE), g, torch.sigmoid(normal(tokens, HEADS)))
    return tuple(x.to(dtype) for x in values)


def test_golden_fragments(golden: Path) -> None:
    case = load_file(golden / "kda" / "kcp_fragments.safetensors")
    lengths = case["segment_lens"].tolist()
    parts = [case[name][0].split(lengths) for name in ("k", "v", "g", "beta")]
    state = case["initial_state"][0]
    for i, tokens in enumerate(zip(*parts, strict=True)):
        torch.testing.assert_close(state, case["incoming_state"][i, 0], rtol=1e-6, atol=1e-7)
        segment = summarise(*tokens)
        torch.testing.assert_close(segment.transfer_HKK, case["M"][i, 0], rtol=1e-6, atol=1e-7)
        torch.testing.assert_close(segment.written_HKV, case["S_tilde"][i, 0], rtol=1e-6, atol=1e-7)
        state = segment(state)
    torch.testing.assert_close(state, case["final_state"][0], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("cuts", [(40,), (1, 39), (7, 5, 28), (16, 16, 8)])
def test_segments_compose_in_any_grouping(cuts: tuple[int, ...]) -> None:
    _, *inputs = draw(40)
    whole = summarise(*inputs)
    pieces = [summarise(*tokens) for tokens in zip(*(x.split(list(cuts)) for x in inputs), strict=True)]
    left = pieces[0]
    for piece in pieces[1:]:
        left = piece.after(left)
    right = pieces[-1]
    for piece in pieces[-2::-1]:
        right = right.after(piece)
    for made in (left, right):
        torch.testing.assert_close(made.transfer_HKK, whole.transfer_HKK, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(made.written_HKV, whole.written_HKV, rtol=1e-9, atol=1e-12)


def pieces_of(lengths: list[int], cuts: list[int], rank: int) -> tuple[list[int], bool]:
    """Lengths of the documents' pieces on a rank, and whether the first goes on from the rank before."""
    start, end = sum(cuts[:rank]), sum(cuts[: rank + 1])
    pieces: list[int] = []
    continues = False
    at = 0
    for n in lengths:
        overlap = min(at + n, end) - max(at, start)
        if overlap > 0:
            continues |= at < start
            pieces.append(overlap)
        at += n
    return pieces, continues


def on_ranks(world: World, lengths: list[int], cuts: list[int], dtype: torch.dtype) -> list[Tensor]:
    """This function on each rank: outputs and gradients of all ranks, end to end."""
    part = slice(sum(cuts[: world.rank]), sum(cuts[: world.rank + 1]))
    inputs = [x[part].clone().requires_grad_() for x in draw(sum(lengths), dtype)]
    pieces, continues = pieces_of(lengths, cuts, world.rank)
    q, k, v, g, beta = inputs
    o, _ = kda_parallel(q, k, v, g, beta, DocLayout.of(pieces), continues=continues)
    (o * weight(sum(lengths), dtype)[part]).sum().backward()
    mine = [o.detach(), *(x.grad for x in inputs)]
    return [torch.cat(parts) for parts in zip(*world.gather(mine), strict=True)]


def weight(tokens: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(tokens, HEADS, VALUE, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    ("lengths", "cuts"),
    [
        ([48], [20, 28]),
        ([48], [9, 13, 1, 25]),
        ([10, 30, 8], [12, 12, 12, 12]),
        ([24, 24], [24, 24]),
        ([3, 40, 5], [5, 43]),
    ],
)
def test_ranks_equal_one(lengths: list[int], cuts: list[int], dtype: torch.dtype) -> None:
    inputs = [x.requires_grad_() for x in draw(sum(lengths), dtype)]
    q, k, v, g, beta = inputs
    o, _ = kda(q, k, v, g, beta, DocLayout.of(lengths))
    (o * weight(sum(lengths), dtype)).sum().backward()
    expected = [o.detach(), *(x.grad for x in inputs)]
    made = run_parallel(on_ranks, len(cuts), lengths, cuts, dtype)
    tolerance = 1e-9 if dtype == torch.float64 else 2e-4
    for one, other in zip(made, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def test_strong_decay_stays_finite() -> None:
    _, k, v, g, beta = draw(64, torch.float32)
    for decay in (torch.full_like(g, -5.0), torch.zeros_like(g)):
        segment = summarise(k, v, decay, torch.ones_like(beta))
        assert all(torch.isfinite(x).all() for x in (segment.transfer_HKK, segment.written_HKV))
        assert isinstance(segment.after(segment), Segment)

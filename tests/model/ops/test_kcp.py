"""Segments compose to the whole, on the golden vectors and over gloo ranks, forward and gradients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from ninefold.core.layout import DocLayout
from ninefold.core.types import Batch, Sample
from ninefold.learn.loss.sft import sft_loss
from ninefold.learn.loss.split import split_loss
from ninefold.learn.parallel import World, run_parallel
from ninefold.learn.trainer import Trainer, TrainerConfig
from ninefold.model.k3 import K3
from ninefold.model.ops.kcp import Segment, Stretch, kda_parallel, summarise
from ninefold.model.ops.kda import kda, l2norm
from ninefold.model.presets import preset
from ninefold.model.weights import Weights
from tests.model.test_k3 import draw_ids, spread

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


CASES = {
    2: [([48], [20, 28]), ([24, 24], [24, 24]), ([3, 40, 5], [5, 43])],
    4: [([48], [9, 13, 1, 25]), ([10, 30, 8], [12, 12, 12, 12])],
}
"""Ranks → lengths of the documents, tokens of each rank."""


def stretch_of(world: World, lengths: list[int], sizes: list[int]) -> Stretch:
    cuts = tuple(sum(sizes[:n]) for n in range(len(sizes) + 1))
    return Stretch(whole=DocLayout.of(lengths), cuts=cuts, rank=world.rank)


def rule(world: World, lengths: list[int], sizes: list[int], dtype: torch.dtype) -> list[Tensor]:
    """Outputs and gradients of the delta rule alone, of all ranks, end to end."""
    stretch = stretch_of(world, lengths, sizes)
    inputs = [x[stretch.tokens].clone().requires_grad_() for x in draw(sum(lengths), dtype)]
    q, k, v, g, beta = inputs
    o, _ = kda_parallel(q, k, v, g, beta, stretch.layout, continues=stretch.before > 0)
    (o * weight(sum(lengths), dtype)[stretch.tokens]).sum().backward()
    mine = [o.detach(), *(x.grad for x in inputs)]
    return [torch.cat(parts) for parts in zip(*world.gather(mine), strict=True)]


def weight(tokens: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(tokens, HEADS, VALUE, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)


def passed(model: K3, hidden: Tensor, tokens: slice) -> None:
    weights = torch.randn(200, hidden.shape[1], generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    (hidden * weights[tokens]).sum().backward()


def whole_model(world: World, lengths: list[int], sizes: list[int]) -> list[Tensor]:
    """Hidden states and every gradient of a K3 in float64."""
    model, stretch = spread(K3(preset("tiny", 64))).double(), stretch_of(world, lengths, sizes)
    hidden = model.split(draw_ids(sum(lengths), vocab=64), stretch).final_TD
    passed(model, hidden, stretch.tokens)
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    for gradient in gradients:
        world.sum_(gradient)
    return [torch.cat(world.gather(hidden.detach())), *gradients]


def stepped(world: World) -> Weights:
    """A K3 after two steps of the trainer on a long document and a short one; in float64, for AdamW magnifies rounding."""
    model = spread(K3(preset("tiny", 64)), 0.05).double()
    trainer = Trainer(model, TrainerConfig(steps=2, qk_clip=0.05), world=world)
    samples = [Sample(ids=draw_ids(n, vocab=64).int().numpy(), mask=np.arange(n) % 3 > 0) for n in (61, 20)]
    for _ in range(2):
        trainer.step([Batch.pack(samples)], sft_loss if world.size == 1 else split_loss)
    return trainer.weights()


def on_ranks(world: World) -> tuple[list[list[Tensor]], list[list[Tensor]], Weights]:
    """All that the test below asks of ranks, in one start of them."""
    cases = CASES[world.size]
    rules = [rule(world, *case, dtype) for dtype in (torch.float64, torch.float32) for case in cases]
    models = [whole_model(world, *case) for case in cases if min(case[1]) > 2]
    return rules, models, stepped(world)


@pytest.mark.parametrize("ranks", CASES)
def test_ranks_equal_one(ranks: int) -> None:
    rules, models, weights = run_parallel(on_ranks, ranks)
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 2e-4)):
        for lengths, _ in CASES[ranks]:
            inputs = [x.requires_grad_() for x in draw(sum(lengths), dtype)]
            q, k, v, g, beta = inputs
            o, _ = kda(q, k, v, g, beta, DocLayout.of(lengths))
            (o * weight(sum(lengths), dtype)).sum().backward()
            for one, other in zip(rules.pop(0), [o.detach(), *(x.grad for x in inputs)], strict=True):
                torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
    for lengths, _ in (case for case in CASES[ranks] if min(case[1]) > 2):
        model = spread(K3(preset("tiny", 64))).double()
        hidden = model(draw_ids(sum(lengths), vocab=64), DocLayout.of(lengths)).final_TD
        passed(model, hidden, slice(0, sum(lengths)))
        want = [hidden.detach(), *(torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters())]
        for one, other in zip(models.pop(0), want, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)
    for name, value in stepped(World()).tensors.items():
        torch.testing.assert_close(weights.tensors[name], value, rtol=0, atol=1e-5, msg=name)


def test_strong_decay_stays_finite() -> None:
    _, k, v, g, beta = draw(64, torch.float32)
    for decay in (torch.full_like(g, -5.0), torch.zeros_like(g)):
        segment = summarise(k, v, decay, torch.ones_like(beta))
        assert all(torch.isfinite(x).all() for x in (segment.transfer_HKK, segment.written_HKV))
        assert isinstance(segment.after(segment), Segment)

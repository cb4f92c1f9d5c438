"""Routing and experts: the golden LatentMoE layer with all gradients; dense and sorted paths equal the naive loop."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor

from ninefold.model.ops.moe import experts, experts_dense, experts_sorted, route
from ninefold.model.ops.naive import experts_naive
from ninefold.model.ops.situ import situ_glu

PATHS = pytest.mark.parametrize("path", [experts, experts_dense, experts_sorted])


@PATHS
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
def test_golden_layer(golden: Path, dtype: torch.dtype, tolerance: float, path: type) -> None:
    case = load_file(golden / "moe" / "latent_moe.safetensors")
    names = [n.removeprefix("grad_") for n in case if n.startswith("grad_")]
    leaf = {n: case[n].to(dtype).requires_grad_() for n in names}
    scores = torch.sigmoid(leaf["x"] @ leaf["W_router"].T)
    index, weight, _ = route(scores, case["bias"].to(dtype), 2)
    u = path(leaf["x"] @ leaf["W_down"].T, index, weight, leaf["e_gate"], leaf["e_up"], leaf["e_down"])
    normed = u * torch.rsqrt(u.pow(2).mean(-1, keepdim=True) + 1e-5) * leaf["norm_w"]
    shared = [
        situ_glu(leaf["x"] @ gate.T, leaf["x"] @ up.T) @ down.T
        for gate, up, down in zip(leaf["s_gate"], leaf["s_up"], leaf["s_down"])
    ]
    y = sum(shared, start=normed @ leaf["W_up"].T)
    order = case["topk_idx"].argsort(-1)
    assert torch.equal(index.sort(-1).values, case["topk_idx"].sort(-1).values)
    close = {"rtol": tolerance, "atol": tolerance}
    torch.testing.assert_close(weight.gather(1, index.argsort(-1)).double(), case["topk_p"].gather(1, order), **close)
    torch.testing.assert_close(u.detach().double(), case["u"], **close)
    torch.testing.assert_close(y.detach().double(), case["y"], **close)
    for n, got in zip(names, torch.autograd.grad((y * case["w"]).sum(), list(leaf.values()))):
        torch.testing.assert_close(got.double(), case[f"grad_{n}"], rtol=tolerance, atol=tolerance, msg=n)


def made(T: int, E: int, k: int, L: int, F: int, seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    index = torch.rand(T, E, generator=generator).topk(k).indices
    shapes = ((T, L), (T, k), (E, F, L), (E, F, L), (E, L, F))
    z, p, w1, w3, w2 = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return [z, index, torch.softmax(p, -1), w1, w3, w2]


@settings(max_examples=20, deadline=None)
@given(
    T=st.integers(1, 20),
    E=st.integers(2, 9),
    k=st.integers(1, 2),
    seed=st.integers(0, 1000),
    betas=st.sampled_from([(), (2.0, 3.0)]),
)
def test_all_paths_equal_naive(T: int, E: int, k: int, seed: int, betas: tuple[float, ...]) -> None:
    z, index, *rest = made(T, E, min(k, E - 1), 6, 5, seed)

    def run(path: type, dtype: torch.dtype) -> list[Tensor]:
        leaves = [x.to(dtype).requires_grad_() for x in (z, *rest)]
        u = path(leaves[0], index, *leaves[1:], *betas)
        return [u.detach(), *torch.autograd.grad((u * torch.linspace(-1, 1, 6, dtype=dtype)).sum(), leaves)]

    want = run(experts_naive, torch.float64)
    for path in (experts_dense, experts_sorted):
        for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-4)):
            for got, expected in zip(run(path, dtype), want, strict=True):
                torch.testing.assert_close(got.double(), expected, rtol=tolerance, atol=tolerance)


@PATHS
def test_all_tokens_on_one_expert(path: type) -> None:
    z, _, _, w1, w3, w2 = made(9, 4, 1, 6, 5, 0)
    index = torch.full((9, 1), 2)
    want = situ_glu(z @ w1[2].T, z @ w3[2].T) @ w2[2].T
    torch.testing.assert_close(path(z, index, torch.ones(9, 1, dtype=z.dtype), w1, w3, w2), want)


def test_bias_chooses_but_does_not_weigh() -> None:
    scores = torch.tensor([[0.9, 0.8, 0.1, 0.2]])
    index, weight, cutoff = route(scores, torch.tensor([0.0, 0.0, 1.0, 0.0]), 2)
    assert index.tolist() == [[2, 0]]
    torch.testing.assert_close(weight, torch.tensor([[0.1, 0.9]]))
    torch.testing.assert_close(cutoff, torch.tensor([0.8]))


def test_weights_stay_finite_when_all_scores_underflow() -> None:
    scores = torch.zeros(1, 4, requires_grad=True)
    _, weight, _ = route(scores, torch.zeros(4), 2)
    assert weight.isfinite().all()

"""Noise and draws: uniform, independent of the batch, and of the wanted distribution."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ninefold.engine.sampling import choose, draw, logprob_of, probabilities, uniforms


def test_noise_is_uniform_and_uncorrelated_over_seeds_and_places() -> None:
    seeds, places = np.meshgrid(np.arange(200, dtype=np.uint64), np.arange(200))
    u = uniforms(seeds.ravel(), places.ravel()).reshape(200, 200)
    assert ((u >= 0) & (u < 1)).all()
    assert len(np.unique(u)) == u.size
    counts = np.histogram(u, bins=50, range=(0, 1))[0]
    # χ² with 49 degrees of freedom lies below 95 except once in 10⁴.
    assert ((counts - 800) ** 2 / 800).sum() < 95
    for shifted in (u[1:, :-1] * 0 + u[1:, 1:], u[1:, :-1]):
        assert abs(np.corrcoef(u[:-1, :-1].ravel(), shifted.ravel())[0, 1]) < 0.025


@given(seed=st.integers(0, 2**63 - 1), place=st.integers(0, 2**20), others=st.lists(st.integers(0, 2**63 - 1), max_size=4))
def test_noise_depends_on_seed_and_place_alone(seed: int, place: int, others: list[int]) -> None:
    alone = uniforms(np.array([seed], np.uint64), np.array([place]))[0]
    crowd = uniforms(np.array([*others, seed], np.uint64), np.array([0] * len(others) + [place]))[-1]
    assert alone == crowd


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.5, 1.0), (2.0, 0.7), (1.0, 0.3)])
def test_draws_follow_the_distribution(temperature: float, top_p: float) -> None:
    logits = torch.tensor([2.0, 1.0, 0.5, 0.0, -1.0, -30.0])
    n = 20_000
    full = torch.full((n,), temperature), torch.full((n,), top_p)
    p = probabilities(logits.expand(n, 6), *full)
    token = draw(p, torch.from_numpy(uniforms(np.arange(n, dtype=np.uint64), np.full(n, 3))))
    want = torch.softmax(logits.double() / temperature, 0)
    kept = want.cumsum(0) - want < top_p
    want = torch.where(kept, want, 0.0) / want[kept].sum()
    torch.testing.assert_close(p[0], want)
    counts = torch.bincount(token, minlength=6).double()
    assert counts[~kept].sum() == 0
    expected = want[kept] * n
    likely = expected > 5
    # χ² with at most 5 degrees of freedom lies below 26 except once in 10⁴.
    assert (((counts[kept] - expected) ** 2 / expected)[likely]).sum() < 26


def test_temperature_zero_is_greedy_in_a_mixed_batch() -> None:
    logits = torch.randn(64, 30, generator=torch.Generator().manual_seed(0))
    temperature = torch.tensor([0.0, 1.0]).repeat(32)
    p = probabilities(logits, temperature, torch.ones(64))
    token = draw(p, torch.full((64,), 1 - 2.0**-52, dtype=torch.float64))
    assert torch.equal(token[::2], logits[::2].argmax(-1))
    torch.testing.assert_close(p[1::2], torch.softmax(logits[1::2].double(), -1))


@given(place=st.integers(0, 4), u=st.sampled_from([0.0, 0.3, 1 - 2.0**-52]))
def test_impossible_tokens_are_never_drawn(place: int, u: float) -> None:
    p = torch.zeros(1, 5, dtype=torch.float64)
    p[0, place] = 1.0
    assert draw(p, torch.tensor([u], dtype=torch.float64)).item() == place


@given(
    logits=st.lists(st.floats(-60, 60, width=32) | st.just(float("-inf")), min_size=1, max_size=70),
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.0]),
    uniform=st.floats(0, 1, exclude_max=True),
)
def test_one_pass_chooses_what_the_distribution_function_says(logits: list[float], temperature: float, uniform: float) -> None:
    logits_1V = torch.tensor([[*logits, 0.0]])
    settings = torch.tensor([temperature], dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    token = int(choose(logits_1V, *settings, torch.tensor([uniform], dtype=torch.float64)))
    p = probabilities(logits_1V, *settings)[0]
    assert p[token] > 0
    # The same token, or its neighbour where the uniform lies within rounding of their common boundary.
    assert float(p[:token].sum()) - 1e-5 <= uniform <= float(p[: token + 1].sum()) + 1e-5


def test_log_probabilities_of_tokens() -> None:
    logits = torch.randn(9, 33) * 10
    token = torch.arange(9) * 3
    torch.testing.assert_close(
        logprob_of(logits, token), torch.log_softmax(logits, -1)[torch.arange(9), token], atol=1e-5, rtol=0
    )

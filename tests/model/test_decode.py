"""Decoding from caches equals the packed forward, however the rows were filled, moved and copied."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ninefold.core.layout import DocLayout
from ninefold.model.decode import Decoder
from ninefold.model.k3 import K3
from ninefold.model.presets import preset
from tests.model.test_k3 import draw_ids, spread

TOLERANCE = {"atol": 1e-4, "rtol": 1e-4}
"""The delta rule's first reads are tiny and normalised: rounding of 1e-7 grows a hundredfold there."""


@pytest.fixture(scope="module")
def model() -> K3:
    return spread(K3(preset("tiny")))


def reference(model: K3, ids: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(ids, DocLayout.of([len(ids)])).final_TD


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_any_mixture_of_extensions_and_steps_equals_one_forward(model: K3, data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(2, 30), min_size=1, max_size=4))
    rows = np.array(data.draw(st.permutations(range(6))))[: len(lengths)]
    documents = [draw_ids(n, seed=i) for i, n in enumerate(lengths)]
    wanted = [reference(model, ids) for ids in documents]
    decoder = Decoder(model)
    cache = decoder.new_cache(6, 32)
    while (unfinished := [i for i, ids in enumerate(documents) if cache.lengths[rows[i]] < len(ids)]) != []:
        some = data.draw(st.lists(st.sampled_from(unfinished), min_size=1, unique=True))
        starts = [int(cache.lengths[rows[i]]) for i in some]
        sizes = [data.draw(st.integers(1, len(documents[i]) - s)) for i, s in zip(some, starts)]
        spans = [documents[i][s : s + n] for i, s, n in zip(some, starts, sizes)]
        hidden = decoder.extend(torch.cat(spans), DocLayout.of(sizes), cache, rows[some])
        for i, s, n, got in zip(some, starts, sizes, hidden.final_TD.split(sizes)):
            torch.testing.assert_close(got, wanted[i][s : s + n], **TOLERANCE)


def test_lockstep_with_rows_at_their_own_places(model: K3) -> None:
    documents = [draw_ids(n, seed=n) for n in (9, 30, 17, 25)]
    starts = [1, 20, 7, 0]
    decoder = Decoder(model)
    cache = decoder.new_cache(4, 32)
    filled = [i for i, s in enumerate(starts) if s]
    prompts = [documents[i][: starts[i]] for i in filled]
    decoder.extend(torch.cat(prompts), DocLayout.of([len(p) for p in prompts]), cache, np.array(filled))
    wanted = [reference(model, ids) for ids in documents]
    for t in range(8):
        final = decoder.step(torch.stack([ids[s + t] for ids, s in zip(documents, starts)]), cache).final_TD
        for got, want, s in zip(final, wanted, starts):
            torch.testing.assert_close(got, want[s + t], **TOLERANCE)
    assert cache.lengths.tolist() == [s + 8 for s in starts]


def test_copied_swapped_and_cleared_rows_go_on_alone(model: K3) -> None:
    a, b = draw_ids(12, seed=1), draw_ids(7, seed=2)
    decoder = Decoder(model)
    cache = decoder.new_cache(5, 32)
    decoder.extend(torch.cat([a, b]), DocLayout.of([12, 7]), cache, np.array([0, 4]))
    cache.copy(np.array([0, 0]), np.array([1, 2]))
    cache.swap(np.array([2, 3]), np.array([4, 0]))
    assert cache.lengths.tolist() == [0, 12, 7, 12, 12]
    cache.clear(np.array([3]))
    tails = [draw_ids(3, seed=s) for s in (5, 6, 7, 8, 9)]
    heads = [a[:0], a, b, a[:0], a]
    wanted = [reference(model, torch.cat([h, t]))[len(h) :] for h, t in zip(heads, tails)]
    for t in range(3):
        final = decoder.step(torch.stack([tail[t] for tail in tails]), cache).final_TD
        torch.testing.assert_close(final, torch.stack([w[t] for w in wanted]), **TOLERANCE)


def test_a_decoder_keeps_the_weights_it_was_made_from() -> None:
    model = spread(K3(preset("tiny")))
    decoder, ids = Decoder(model), draw_ids(6)
    wanted = reference(model, ids)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    hidden = decoder.extend(ids, DocLayout.of([6]), decoder.new_cache(1, 8), np.array([0]))
    torch.testing.assert_close(hidden.final_TD, wanted, **TOLERANCE)


def test_quantised_decoding_is_the_quantised_function(model: K3) -> None:
    ids = draw_ids(20)
    model.quantize()
    wanted = reference(model, ids)
    decoder = Decoder(model)
    hidden = decoder.extend(ids, DocLayout.of([20]), decoder.new_cache(1, 20), np.array([0]))
    model.quantize(False)
    torch.testing.assert_close(hidden.final_TD, wanted, **TOLERANCE)
    assert (wanted - reference(model, ids)).abs().max() > 1e-2

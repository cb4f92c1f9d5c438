"""Samples that share their beginning: the same losses and gradients as each by itself, from fewer tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ninefold.core.layout import DocLayout
from ninefold.core.picture import Picture
from ninefold.core.types import Batch, Sample
from ninefold.learn.batch import micro_batches
from ninefold.learn.loss.policy import PolicyConfig, policy_loss
from ninefold.model.k3 import K3, sight_in
from ninefold.model.llama import Llama
from ninefold.model.presets import preset
from tests.model.test_k3 import spread
from tests.model.test_llama import LLAMA, QWEN

LENGTHS = st.lists(st.tuples(st.integers(0, 40), st.lists(st.integers(1, 30), min_size=1, max_size=5)), min_size=1, max_size=4)
WIDE = PolicyConfig(low=-9, high=9)


MODELS = {
    "tiny": lambda: K3(preset("tiny")),
    "k2-tiny": lambda: K3(preset("k2-tiny")),
    "qwen": lambda: Llama(QWEN.model_copy(update={"vocab_size": 200})),
    "llama": lambda: Llama(LLAMA.model_copy(update={"vocab_size": 200})),
}


def attempts(groups: Sequence[tuple[int, Sequence[int]]], seed: int = 0, vocabulary: int = 200) -> list[Sample]:
    """Samples of each group: a prompt of so many tokens, then answers of those lengths, parts of which are learned."""
    rng = np.random.default_rng(seed)
    found: list[Sample] = []
    for number, (prompt, answers) in enumerate(groups):
        begun = rng.integers(0, vocabulary, prompt)
        for answer in answers:
            ids = np.concatenate([begun, rng.integers(0, vocabulary, answer)]).astype(np.int32)
            mask = np.arange(len(ids)) >= prompt
            mask[prompt + 1 :] &= rng.random(answer - 1) < 0.7
            streams = {name: rng.normal(-1, 0.3, len(ids)).astype(np.float32) for name in ("advantage", "old_logprob")}
            found.append(Sample(ids=ids, mask=mask, streams=streams, task=str(number)))
    return found


def learned(batches: Sequence[Batch], model: K3 | Llama) -> tuple[float, int, dict[str, torch.Tensor]]:
    """Loss, learned tokens and gradients over all batches."""
    model.zero_grad(set_to_none=True)
    losses = [policy_loss(model, batch, WIDE) for batch in batches]
    for loss in losses:
        loss.total.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return sum(float(loss.total.detach()) for loss in losses), sum(loss.tokens for loss in losses), gradients


def compare(model: K3 | Llama, samples: Sequence[Sample], bound: int, tolerance: float) -> tuple[int, int]:
    """Tokens of the batches with and without sharing."""
    apart, shared = (micro_batches(samples, bound, sight_in(model), share=share) for share in (0, bound))
    (loss, tokens, gradients), (same_loss, same_tokens, same) = (learned(batches, model) for batches in (apart, shared))
    assert tokens == same_tokens
    assert same_loss == pytest.approx(loss, rel=tolerance, abs=tolerance)
    assert gradients.keys() == same.keys()
    for name, gradient in gradients.items():
        size = float(gradient.abs().max()) + tolerance
        torch.testing.assert_close(same[name], gradient, rtol=tolerance, atol=tolerance * size, msg=name)
    few, all_ = (sum(batch.layout.tokens for batch in batches) for batches in (shared, apart))
    return few, all_


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=12, deadline=None)
@given(groups=LENGTHS, bound=st.integers(1, 300), seed=st.integers(0, 2**20))
def test_loss_and_gradients_are_those_of_single_samples(name: str, groups: list, bound: int, seed: int) -> None:
    """In float64 up to the logits, where nothing but the order of sums differs."""
    compare(spread(MODELS[name]().double()), attempts(groups, seed), bound, 1e-5)


@pytest.mark.parametrize("quantized", [False, True])
def test_the_fast_form_agrees(quantized: bool) -> None:
    model = spread(K3(preset("tiny")), 0.02)
    model.quantize(quantized)
    # What lies on a rounding boundary of MXFP8 may fall to either side.
    few, all_ = compare(model, attempts([(90, [12, 20, 3, 17]), (4, [9, 2]), (50, [30])]), 2000, 5e-2 if quantized else 2e-4)
    assert few == all_ - 3 * 89 - 3


def test_a_tree_beyond_the_bound_is_split_with_its_trunk() -> None:
    batches = micro_batches(attempts([(50, [10] * 12)]), 100, share=100)
    assert [batch.layout.lengths.tolist() for batch in batches] == [[49] + [11] * 4] * 3
    (batch,) = micro_batches(attempts([(50, [10] * 12)]), 1000, share=100)
    assert batch.layout.lengths.tolist() == [49] * 3 + [11] * 12
    assert batch.layout.origin.tolist() == [-1] * 3 + [0] * 4 + [1] * 4 + [2] * 4


def test_only_what_nobody_learns_is_shared() -> None:
    one, other = attempts([(20, [9, 9])])
    early = replace(one, mask=np.arange(29) >= 12)
    (batch,) = micro_batches([early, other], 1000, share=1000)
    assert batch.layout.lengths.tolist() == [11, 18, 18]
    unlike = replace(other, ids=np.concatenate([other.ids[:5], other.ids[5:] + 1]))
    (batch,) = micro_batches([one, unlike], 1000, share=1000)
    assert batch.layout.lengths.tolist() == [5, 24, 24]
    (batch,) = micro_batches([one, replace(other, task="other")], 1000, share=1000)
    assert batch.layout.trunks is None


def test_a_shared_picture_is_seen_once_and_another_ends_what_is_shared() -> None:
    model = spread(K3(preset("nano-vision", vocab_size=256)), 0.02)
    sight = model.sight
    assert sight is not None
    rng = np.random.default_rng(3)
    shown = [Picture.of(rng.integers(0, 256, (24, 24, 3)).astype(np.uint8)) for _ in range(3)]

    def sample(pictures: Sequence[Picture], own: Sequence[Picture], seed: int) -> Sample:
        (made,) = attempts([(40, [14])], seed)
        ids = made.ids.copy()
        ids[:40] = attempts([(40, [1])])[0].ids[:40]
        ids[ids == sight.placeholder] = 9
        for n in range(len(pictures)):
            ids[5 + 10 * n] = sight.placeholder
        for n in range(len(own)):
            ids[44 + n] = sight.placeholder
        return replace(made, ids=ids, task="seen", pictures=(*pictures, *own))

    alike = [sample(shown[:2], own, seed) for seed, own in enumerate(([], shown[2:], shown[:1]))]
    compare(model, alike, 2000, 1e-3)
    (batch,) = micro_batches(alike, 2000, sight, share=2000)
    assert [p.hash for p in batch.pictures] == [p.hash for p in (shown[0], shown[1], shown[2], shown[0])]
    unlike = [sample(shown[:2], [], 1), sample([shown[0], shown[2]], [], 2)]
    compare(model, unlike, 2000, 1e-3)
    (batch,) = micro_batches(unlike, 2000, sight, share=2000)
    assert batch.layout.lengths[0] == 15 + sight.tokens(shown[0]) - 1


def test_places_go_on_behind_the_trunk() -> None:
    layout = DocLayout.of([3, 2, 4, 2, 1], [0, -1, 0])
    assert layout.place.tolist() == [0, 1, 2, 0, 1, 3, 4, 5, 6, 0, 1, 3]
    tokens, whole = layout.whole
    assert tokens.tolist() == [0, 1, 2, 5, 6, 7, 8, 9, 10, 0, 1, 2, 11]
    assert whole.lengths.tolist() == [7, 2, 4]
    for lengths, trunks in (([3, 2], [1]), ([3], [-1]), ([3, 2], [-2])):
        with pytest.raises(ValueError, match="trunks"):
            DocLayout.of(lengths, trunks)

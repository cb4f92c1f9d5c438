"""Which tokens are learned from, and their log-probabilities."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ninefold.core.errors import UserError
from ninefold.core.layout import DocLayout
from ninefold.core.types import Batch, Sample
from ninefold.learn.loss.mtp import MTPConfig, language_loss, mtp_predictors
from ninefold.learn.loss.policy import PolicyConfig, policy_loss
from ninefold.learn.loss.sft import sft_loss
from ninefold.learn.loss.tokens import entropy_of, predictors, token_logprobs
from ninefold.model.k3 import K3

Make = Callable[..., list[Sample]]


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=6), min_size=1, max_size=5))
def test_predictors_stay_within_their_document(masks: list[list[bool]]):
    samples = [Sample(ids=np.arange(len(m), dtype=np.int32), mask=np.array(m)) for m in masks]
    batch = Batch.pack(samples)
    start, one, two = 0, [], []
    for mask in masks:
        one += [start + t for t in range(len(mask) - 1) if mask[t + 1]]
        two += [start + t for t in range(len(mask) - 2) if mask[t + 2]]
        start += len(mask)
    assert predictors(batch).tolist() == one
    assert mtp_predictors(batch).tolist() == two


def test_logprobs_are_those_of_a_full_softmax(model: K3, samples: Make):
    batch = Batch.pack(samples([9, 1, 5, 23]))
    tokens = token_logprobs(model, batch, entropy=True)
    with torch.no_grad():
        final_TD = model(torch.from_numpy(batch.ids.astype(np.int64)), batch.layout).final_TD
        logprob_TV = model.logits(final_TD).double().log_softmax(-1)
    place = predictors(batch)
    expected = logprob_TV[place, batch.ids[place + 1]]
    torch.testing.assert_close(tokens.logprob_N.detach().double(), expected, rtol=1e-5, atol=1e-5)
    entropy = -(logprob_TV[place].exp() * logprob_TV[place]).sum(-1)
    assert tokens.entropy_N is not None
    torch.testing.assert_close(tokens.entropy_N.double(), entropy, rtol=1e-5, atol=1e-5)
    for name, stream in batch.streams.items():
        np.testing.assert_array_equal(tokens.streams[name].numpy(), stream[place + 1])


def test_a_batch_without_learned_tokens_has_zero_loss_and_gradient(model: K3):
    empty = Sample(ids=np.arange(5, dtype=np.int32), mask=np.zeros(5, bool))
    for loss in (sft_loss(model, Batch.pack([empty])), language_loss(model, Batch.pack([empty]), MTPConfig(weight=0.3))):
        loss.total.backward()
        assert loss.tokens == 0
        assert loss.total.item() == 0
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())


def test_a_missing_stream_is_named(model: K3):
    bare = Batch.pack([Sample(ids=np.arange(5, dtype=np.int32), mask=np.ones(5, bool))])
    with pytest.raises(UserError, match="old_logprob"):
        token_logprobs(model, bare).stream("old_logprob")
    with pytest.raises(UserError, match="advantage"):
        policy_loss(model, bare, PolicyConfig())


def test_entropy_of_certainty_is_zero():
    assert entropy_of(torch.tensor([[1e4, 0.0, -torch.inf]])).item() == 0.0


def test_mtp_loss_is_cross_entropy_of_the_token_after_next(model: K3, samples: Make):
    batch = Batch.pack(samples([11, 2, 6]))
    loss = language_loss(model, batch, MTPConfig(weight=0.25))
    ids_T = torch.from_numpy(batch.ids.astype(np.int64))
    with torch.no_grad():
        logprob_TV = model.logits(model.mtp_hidden(model(ids_T, batch.layout), ids_T, batch.layout)).double().log_softmax(-1)
        next_only = language_loss(model, batch, MTPConfig(weight=0.0))
    place = mtp_predictors(batch)
    nll = -logprob_TV[place, batch.ids[place + 2]].sum()
    torch.testing.assert_close((loss.total - next_only.total).double().detach(), 0.25 * nll, rtol=1e-5, atol=1e-5)
    assert loss.metrics["mtp/loss"].count == len(place)
    assert loss.tokens == len(predictors(batch))


def test_layout_edge_documents_of_one_token():
    batch = Batch(ids=np.zeros(3, np.int32), mask=np.ones(3, bool), layout=DocLayout.of([1, 1, 1]))
    assert len(predictors(batch)) == 0

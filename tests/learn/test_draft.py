"""The unrolled LK loss: which row proposes which token, and what a perfect draft scores."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ninefold.core.layout import DocLayout
from ninefold.core.types import Batch, Sample
from ninefold.learn.loss.draft import DraftConfig, draft_loss, draft_places
from ninefold.model.k3 import K3

Make = Callable[..., list[Sample]]


class Oracle(nn.Module):
    """A draft that knows the target's own logits, off by a learned temperature."""

    def __init__(self, target: K3) -> None:
        super().__init__()
        self.cold = nn.Parameter(torch.ones(()))
        self.target = [target]

    def unroll(self, features: tuple[Tensor, ...], ids_T: Tensor, layout: DocLayout, steps: int) -> list[Tensor]:
        with torch.no_grad():
            logits_TV = self.target[0].logits(features[2])
        return [self.cold * logits_TV.roll(-1 - step, 0) for step in range(steps)]


def test_every_proposal_is_of_the_row_s_own_document():
    members = [Sample(ids=np.arange(n, dtype=np.int32), mask=np.arange(n) != 3) for n in (5, 1, 9)]
    batch = Batch.pack(members)
    starts = batch.layout.cu_seqlens
    for step in range(7):
        expected = [
            int(start) + t
            for start, member in zip(starts, members)
            for t in range(len(member.ids) - 2 - step)
            if t + 2 + step != 3
        ]
        assert draft_places(batch, step).tolist() == expected


def test_a_draft_equal_to_its_target_is_always_taken(model: K3, samples: Make):
    model.lm_head.weight.data.mul_(30)
    batch = Batch.pack(samples([20, 4, 1, 11]))
    draft = Oracle(model)
    loss = draft_loss(draft, batch, model, DraftConfig(steps=7))
    assert loss.total.item() == pytest.approx(0, abs=1e-4)
    assert loss.tokens == sum(len(draft_places(batch, step)) for step in range(7))
    for step in range(1, 8):
        assert loss.metrics[f"draft/accept_{step}"].value == pytest.approx(1, abs=1e-5)


def test_only_the_draft_learns(model: K3, samples: Make):
    model.lm_head.weight.data.mul_(30)
    draft = Oracle(model)
    draft.cold.data.fill_(0.5)
    loss = draft_loss(draft, Batch.pack(samples([20, 11])), model, DraftConfig(steps=3))
    loss.total.backward()
    assert draft.cold.grad is not None
    assert draft.cold.grad.item() < 0
    assert all(p.grad is None for p in model.parameters())
    assert 0 < loss.metrics["draft/accept_1"].value < 1


def test_documents_too_short_to_draft_for_give_nothing(model: K3, samples: Make):
    loss = draft_loss(Oracle(model), Batch.pack(samples([2, 1])), model, DraftConfig())
    assert loss.tokens == 0
    assert loss.total.item() == 0

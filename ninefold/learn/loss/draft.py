"""Training a draft against its frozen target: the LK loss over unrolled steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from ninefold.core.config import Config
from ninefold.core.layout import DocLayout
from ninefold.core.types import Batch
from ninefold.learn.loss.lk import log_acceptance
from ninefold.learn.loss.outcome import Loss, Mean
from ninefold.learn.loss.tokens import forward_k3, ids_of
from ninefold.model.k3 import K3


class DraftConfig(Config):
    """How the draft is trained."""

    steps: int = Field(default=7, ge=1)
    """Unrolled steps; from the second on the draft reads its own outputs (report, draft model)."""


class Draft(Protocol):
    """A draft whose row t, at 0-based step s, predicts token t + 2 + s."""

    def unroll(
        self, features: tuple[Tensor, Tensor, Tensor], ids_T: Tensor, layout: DocLayout, steps: int, /
    ) -> Sequence[Tensor]:
        """[T, V] logits of each step."""
        ...


def draft_places(batch: Batch, step: int) -> NDArray[np.int64]:
    """[N] rows t that propose, at 0-based `step`, a token t + 2 + step of their own document that is learned from."""
    ahead = step + 2
    learned = np.zeros(len(batch.ids), bool)
    learned[:-ahead] = batch.mask[ahead:]
    return np.flatnonzero(learned & batch.layout.has(ahead))


def draft_loss(draft: Draft, batch: Batch, target: K3, config: DraftConfig) -> Loss:
    """−Σ ln Σ_x min(p, q) over every proposal of every step, at temperature 1; no cross-entropy term (report, L_LK).

    `draft/accept_1` … are the mean probabilities that speculative sampling takes the proposal of that step, given that it
    took those before. Source: report, draft model.
    """
    ids_T = ids_of(target, batch)
    with torch.no_grad():
        hidden = forward_k3(target, batch)
    total, tokens = ids_T.new_zeros((), dtype=torch.float32), 0
    metrics: dict[str, Mean] = {}
    for step, logits_TV in enumerate(draft.unroll(hidden.features, ids_T, batch.layout, config.steps)):
        place_N = torch.from_numpy(draft_places(batch, step)).to(ids_T.device)
        with torch.no_grad():
            target_NV = target.logits(hidden.final_TD[place_N + step + 1]).float()
        accept_N = log_acceptance(target_NV, logits_TV[place_N].float())
        total, tokens = total - accept_N.sum(), tokens + accept_N.numel()
        metrics[f"draft/accept_{step + 1}"] = Mean.of(accept_N.exp())
    return Loss(total=total, tokens=tokens, metrics=metrics | {"loss": Mean(total=float(total.detach()), count=tokens)})

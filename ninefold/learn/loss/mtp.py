"""Next-token prediction with the multi-token layer beside it: the loss of pre-training, and of the MTP layer after it."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field

from ninefold.core.config import Config
from ninefold.core.types import Batch
from ninefold.learn.loss.outcome import Loss, Mean
from ninefold.learn.loss.sft import sft_objective
from ninefold.learn.loss.tokens import forward_k3, ids_of, predictors, select_tokens
from ninefold.model.k3 import K3


class MTPConfig(Config):
    """How much the multi-token layer counts."""

    weight: float = Field(default=0.1, ge=0)
    """Weight of its cross-entropy beside the next token's; 0 leaves the layer out."""


def mtp_predictors(batch: Batch) -> NDArray[np.int64]:
    """[M] places t whose token t + 2 lies in the same document and is learned from."""
    learned = np.zeros(len(batch.ids), bool)
    learned[:-2] = batch.mask[2:]
    return np.flatnonzero(learned & batch.layout.has(2))


def language_loss(model: K3, batch: Batch, config: MTPConfig) -> Loss:
    """Σ −ln π(t + 1) + weight · Σ −ln π_MTP(t + 2), both over learned tokens; the next-token count divides both."""
    ids_T = ids_of(model, batch)
    hidden = forward_k3(model, batch)
    place_N = torch.from_numpy(predictors(batch)).to(ids_T.device)
    loss = sft_objective(select_tokens(model.logits(hidden.final_TD[place_N]).float(), batch))
    if config.weight == 0:
        return loss
    place_M = torch.from_numpy(mtp_predictors(batch)).to(ids_T.device)
    logits_MV = model.logits(model.mtp_hidden(hidden, ids_T, batch.layout)[place_M]).float()
    target_M = ids_T[place_M + 2]
    nll_M = F.cross_entropy(logits_MV, target_M, reduction="none")
    metrics = {"mtp/loss": Mean.of(nll_M), "mtp/accuracy": Mean.of(logits_MV.argmax(-1) == target_M)}
    return Loss(total=loss.total + config.weight * nll_M.sum(), tokens=loss.tokens, metrics={**loss.metrics, **metrics})

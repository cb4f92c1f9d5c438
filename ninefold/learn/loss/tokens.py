"""Log-probabilities of the tokens that are learned from, and the streams that go with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from ninefold.core.errors import UserError
from ninefold.core.types import Batch
from ninefold.learn.loss.outcome import LanguageModel
from ninefold.model.k3 import K3, Hidden


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprobs:
    """N learned tokens of a packed batch, in order."""

    logprob_N: Tensor
    """ln π_θ of each, with gradient."""
    streams: Mapping[str, Tensor]
    """Name → [N], e.g. advantage, old_logprob."""
    entropy_N: Tensor | None = None
    """Entropy of each next-token distribution in nats, without gradient."""

    def stream(self, name: str) -> Tensor:
        """[N] one stream. Raises UserError where the batch does not carry it."""
        if name not in self.streams:
            have = ", ".join(sorted(self.streams)) or "none"
            raise UserError(f"this loss needs the per-token stream {name!r}, and the samples carry {have}")
        return self.streams[name]


def predictors(batch: Batch) -> NDArray[np.int64]:
    """[N] places t whose next token t + 1 lies in the same document and is learned from.

    A document's first token is predicted by nothing, so it is never a target.
    """
    learned = np.zeros(len(batch.ids), bool)
    learned[:-1] = batch.mask[1:]
    return np.flatnonzero(learned & batch.layout.has(1))


def device_of(model: LanguageModel) -> torch.device:
    """Where the model's parameters lie."""
    return next(iter(model.parameters())).device


def hidden_states(model: LanguageModel, batch: Batch) -> Tensor:
    """[T, D] final hidden states of a packed batch."""
    if isinstance(model, K3):
        return forward_k3(model, batch).final_TD
    assert not batch.pictures, "micro_batches makes no batch with pictures for a model that reads none"
    return model(ids_of(model, batch), batch.layout).final_TD


def forward_k3(model: K3, batch: Batch) -> Hidden:
    """What a packed batch leaves, its pictures in their places; the gradient reaches the tower."""
    ids_T = ids_of(model, batch)
    if not batch.pictures:
        return model(ids_T, batch.layout)
    assert model.sight is not None
    pixels_PCSS, grids = model.sight.patches(batch.pictures)
    return model(ids_T, batch.layout, model.pictures(pixels_PCSS.to(ids_T.device), grids))


def ids_of(model: LanguageModel, batch: Batch) -> Tensor:
    """[T] token ids on the model's device."""
    return torch.from_numpy(batch.ids.astype(np.int64)).to(device_of(model))


def target_logits(model: LanguageModel, batch: Batch) -> Tensor:
    """[N, V] logits in fp32, only at places whose next token is learned from."""
    place_N = torch.from_numpy(predictors(batch)).to(device_of(model))
    return model.logits(hidden_states(model, batch)[place_N]).float()


def token_logprobs(model: LanguageModel, batch: Batch, *, entropy: bool = False) -> TokenLogprobs:
    """Score the learned tokens of a packed batch, with gradient."""
    return select_tokens(target_logits(model, batch), batch, entropy=entropy)


def select_tokens(logits_NV: Tensor, batch: Batch, *, entropy: bool = False) -> TokenLogprobs:
    """The learned tokens' log-probabilities and streams, given the logits at `predictors(batch)`."""
    target = predictors(batch) + 1
    device = logits_NV.device
    target_N = torch.from_numpy(batch.ids[target].astype(np.int64)).to(device)
    return TokenLogprobs(
        logprob_N=-F.cross_entropy(logits_NV, target_N, reduction="none"),
        streams={name: torch.from_numpy(stream[target]).to(device) for name, stream in batch.streams.items()},
        entropy_N=entropy_of(logits_NV) if entropy else None,
    )


@torch.no_grad()
def entropy_of(logits_NV: Tensor) -> Tensor:
    """[N] entropy in nats; a token of probability 0 adds nothing."""
    # Held above −10⁴, whose exponential is 0 already: 0 · inf would be NaN.
    logp_NV = torch.log_softmax(logits_NV, -1).clamp_(min=-1e4)
    return -(logp_NV.exp().mul_(logp_NV)).sum(-1)

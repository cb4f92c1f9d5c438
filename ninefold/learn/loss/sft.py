"""Supervised fine-tuning: cross-entropy over the tokens that the model itself must produce."""

from __future__ import annotations

from ninefold.core.types import Batch
from ninefold.learn.loss.outcome import LanguageModel, Loss, Mean
from ninefold.learn.loss.tokens import TokenLogprobs, token_logprobs


def sft_objective(tokens: TokenLogprobs) -> Loss:
    """−Σ ln π over the learned tokens."""
    nll_N = -tokens.logprob_N
    return Loss(total=nll_N.sum(), tokens=nll_N.numel(), metrics={"loss": Mean.of(nll_N)})


def sft_loss(model: LanguageModel, batch: Batch) -> Loss:
    """Cross-entropy of a packed batch."""
    return sft_objective(token_logprobs(model, batch))

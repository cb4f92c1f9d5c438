"""Next-token prediction of documents too long for one rank: their tokens are split over all ranks."""

from __future__ import annotations

import torch

from ninefold.core.types import Batch
from ninefold.learn.loss.outcome import Loss
from ninefold.learn.loss.sft import sft_objective
from ninefold.learn.loss.tokens import TokenLogprobs, ids_of, predictors
from ninefold.model.k3 import K3
from ninefold.model.ops.kcp import Stretch


def split_loss(model: K3, batch: Batch) -> Loss:
    """This rank's share of the cross-entropy of a packed batch, which all ranks of the default group hold alike.

    For the trainer of a replica on each rank: it sums gradients and tokens over ranks. Without the MTP layer.
    """
    ids_T, stretch = ids_of(model, batch), Stretch.even(batch.layout)
    hidden_TD = model.split(ids_T, stretch).final_TD
    mine = [int(t) for t in predictors(batch) if stretch.tokens.start <= t < stretch.tokens.stop]
    place_N = torch.tensor(mine, dtype=torch.int64, device=ids_T.device)
    logits_NV = model.logits(hidden_TD[place_N - stretch.tokens.start]).float()
    logprob_N = torch.log_softmax(logits_NV, -1).gather(1, ids_T[place_N + 1, None]).squeeze(1)
    return sft_objective(TokenLogprobs(logprob_N=logprob_N, streams={}))

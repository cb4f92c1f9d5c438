"""The LK loss: minus the log of the probability that speculative sampling accepts the draft's token."""

from __future__ import annotations

import torch
from torch import Tensor


def log_acceptance(target_NV: Tensor, draft_NV: Tensor) -> Tensor:
    """[N] ln Σ_x min(p(x), q(x)) from logits of the target p and the draft q, at temperature 1.

    In logs throughout, so that disjoint distributions give a finite value and gradient. No gradient to the target.
    Source: report, draft model.
    """
    p_NV, q_NV = target_NV.detach().log_softmax(-1), draft_NV.log_softmax(-1)
    return torch.minimum(p_NV, q_NV).logsumexp(-1)

"""Quantile Balancing (report Eq. 14, App. C–D): the bias that would have sent each expert its fair share of tokens; and the
sign rule that it is compared with.

Nothing here carries gradients. A batch is never routed with a bias computed from itself: compute after the step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

BINS = 1000


@torch.no_grad()
def exact_bias(scores_TE: Tensor, cutoff_T: Tensor, k: int) -> Tensor:
    """[E] minus the (q+1)-th largest margin s − a of each expert, q = T k / E, centred to mean 0.

    Scores must be those of every token that counts (no padding) of the optimiser step.
    """
    tokens, experts = scores_TE.shape
    largest = min(tokens * k // experts, tokens - 1) + 1
    margin_TE = scores_TE - cutoff_T[:, None]
    raw_E = -margin_TE.kthvalue(tokens + 1 - largest, dim=0).values
    return raw_E - raw_E.mean()


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginHistogram:
    """Counts of r = a − s per expert; additive over ranks and micro-batches, so any split gives the same bias."""

    low: float
    """Left edge of the first bin: least bias − 1."""
    width: float
    """Of one bin; the last ends at the greatest bias + 1, and no margin can lie outside."""
    counts_EB: Tensor
    """int64, on the scores' device."""

    @staticmethod
    def empty(bias_E: Tensor, bins: int = BINS) -> MarginHistogram:
        """For a step that is routed with `bias_E`."""
        low, high = float(bias_E.min()) - 1.0, float(bias_E.max()) + 1.0
        counts_EB = torch.zeros(len(bias_E), bins, dtype=torch.int64, device=bias_E.device)
        return MarginHistogram(low=low, width=(high - low) / bins, counts_EB=counts_EB)

    @torch.no_grad()
    def add(self, scores_TE: Tensor, cutoff_T: Tensor) -> None:
        """Count a micro-batch in place."""
        experts, bins = self.counts_EB.shape
        bin_TE = ((cutoff_T[:, None] - scores_TE - self.low) / self.width).long().clamp(0, bins - 1)
        flat = bin_TE + torch.arange(experts, device=bin_TE.device) * bins
        self.counts_EB.add_(torch.bincount(flat.flatten(), minlength=experts * bins).view(experts, bins))

    def bias(self, k: int) -> Tensor:
        """[E] float64: the q-th smallest r of each expert, q = tokens · k / E, linear inside its bin, centred to mean 0."""
        experts, bins = self.counts_EB.shape
        tokens = int(self.counts_EB[0].sum())
        assert tokens, "a bias needs at least one token"
        q = tokens * k / experts
        reached_EB = self.counts_EB.cumsum(1).double()
        bin_E = (reached_EB < -(-tokens * k // experts)).sum(1).clamp(max=bins - 1)
        count_E = self.counts_EB.gather(1, bin_E[:, None]).squeeze(1).double()
        before_E = reached_EB.gather(1, bin_E[:, None]).squeeze(1) - count_E
        raw_E = self.low + (bin_E + (q - before_E) / count_E) * self.width
        return raw_E - raw_E.mean()


@torch.no_grad()
def sign_bias(bias_E: Tensor, load_E: Tensor, step: float) -> Tensor:
    """b + step · sign(mean load − load): the auxiliary-loss-free rule of DeepSeek-V3 and K2, signs taken of exact integers."""
    return bias_E + step * (load_E.sum() - len(load_E) * load_E).sign()


def expert_load(index_Tk: Tensor, experts: int) -> Tensor:
    """[E] int64: routed tokens per expert."""
    return torch.bincount(index_Tk.flatten(), minlength=experts)


def max_over_mean(load_E: Tensor) -> float:
    """1 is perfect balance, E the whole load on one expert; 0 where nothing was routed."""
    total = int(load_E.sum())
    return int(load_E.max()) * len(load_E) / total if total else 0.0


def dead_share(load_E: Tensor) -> float:
    """Share of experts that no token was routed to."""
    return int((load_E == 0).sum()) / len(load_E)

"""What a model remembers of its routing within one optimiser step, and the update of its router biases from it (spec 01)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ninefold.model.ops.balance import MarginHistogram, dead_share, expert_load, max_over_mean, sign_bias

if TYPE_CHECKING:
    from ninefold.model.moe import LatentMoE

Reduce = Callable[[Tensor], object]
"""Sums an int64 tensor in place over ranks; what it returns is ignored."""


def making_again() -> bool:
    """Whether this forward is made again inside a backward pass, as activation checkpointing does: it must not count twice.

    Checkpoint without re-entrance: the other kind makes its first forward without gradients, which never counts.
    """
    # The engine's number of the running backward; torch.utils.checkpoint tells its own recomputation by the same call.
    return torch._C._current_graph_task_id() != -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingCounts:
    """Integer counts of one layer; they add over micro-batches and ranks, so no split changes the update."""

    margins: MarginHistogram | None
    """Of Quantile Balancing; the sign rule needs none."""
    load_E: Tensor
    """int64: routed tokens per expert."""

    @staticmethod
    def fresh(bias_E: Tensor, *, margins: bool = True) -> RoutingCounts:
        """For a step that is routed with `bias_E`."""
        load_E = torch.zeros(len(bias_E), dtype=torch.int64, device=bias_E.device)
        return RoutingCounts(margins=MarginHistogram.empty(bias_E) if margins else None, load_E=load_E)

    def add(self, scores_TE: Tensor, cutoff_T: Tensor, index_Tk: Tensor) -> None:
        """Count one forward's tokens."""
        if self.margins is not None:
            self.margins.add(scores_TE, cutoff_T)
        self.load_E.add_(expert_load(index_Tk, len(self.load_E)))

    @property
    def tensors(self) -> list[Tensor]:
        """All counts, to be summed over ranks in place."""
        return [self.load_E] if self.margins is None else [self.margins.counts_EB, self.load_E]


@torch.no_grad()
def rebalance(layers: Mapping[str, LatentMoE], reduce: Reduce | None) -> dict[str, float]:
    """Move the bias of every layer that counted, start the next step's counts, return load metrics by layer name."""
    counting = {name: (layer, layer.counts) for name, layer in layers.items() if layer.counts is not None}
    if reduce is not None and counting:
        every = [t for _, counts in counting.values() for t in counts.tensors]
        flat = torch.cat([t.flatten() for t in every])
        reduce(flat)
        for t, summed in zip(every, flat.split([t.numel() for t in every])):
            t.copy_(summed.view_as(t))
    metrics: dict[str, float] = {}
    for name, (layer, counts) in counting.items():
        if not int(counts.load_E.sum()):
            continue
        bias_E = layer.gate.e_score_correction_bias
        if counts.margins is None:
            bias_E.copy_(sign_bias(bias_E, counts.load_E, layer.sign_step))
        else:
            bias_E.copy_(counts.margins.bias(layer.top_k))
        layer.counts = layer.fresh_counts()
        metrics[f"{name}.overload"] = max_over_mean(counts.load_E)
        metrics[f"{name}.dead"] = dead_share(counts.load_E)
    return metrics

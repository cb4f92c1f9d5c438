"""What a loss returns: a sum to differentiate, the tokens to divide it by in the end, and metrics that add up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from ninefold.core.layout import DocLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A mean that is still to be taken: means of parts add to the mean of the whole."""

    total: float
    count: float

    @staticmethod
    def of(x_N: Tensor) -> Mean:
        """The mean over the elements of a tensor of any shape (booleans count as 0 and 1)."""
        return Mean(total=float(x_N.detach().double().sum()), count=float(x_N.numel()))

    def __add__(self, other: Mean) -> Mean:
        return Mean(total=self.total + other.total, count=self.count + other.count)

    @property
    def value(self) -> float:
        """total / count; 0 over nothing."""
        return self.total / self.count if self.count else 0.0


Metrics = Mapping[str, Mean]


def add_metrics(parts: Iterable[Metrics]) -> dict[str, Mean]:
    """Metrics of the whole from those of its parts; a name may be missing in some."""
    whole: dict[str, Mean] = {}
    for part in parts:
        for name, mean in part.items():
            whole[name] = whole[name] + mean if name in whole else mean
    return whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The loss of one micro-batch."""

    total: Tensor
    """Scalar: the sum over this micro-batch's tokens. The trainer divides its gradient by the whole batch's tokens."""
    tokens: int
    """Number of tokens in that sum."""
    metrics: Metrics


class Hidden(Protocol):
    """What a forward pass returns."""

    @property
    def final_TD(self) -> Tensor: ...


class LanguageModel(Protocol):
    """What a loss needs of a model: hidden states of a packed batch, and logits at the places it asks for."""

    def __call__(self, ids_T: Tensor, layout: DocLayout, /) -> Hidden: ...

    def logits(self, hidden_ND: Tensor, /) -> Tensor: ...

    def parameters(self) -> Iterable[Tensor]: ...

"""Weights on their way from a trainer to an engine: a copy with a checksum that the receiver verifies."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from ninefold.core.errors import EngineError


@runtime_checkable
class Published(Protocol):
    """A model whose weights have other names or values for those who decode them."""

    def published(self) -> Mapping[str, Tensor]:
        """Copies, without gradient."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """All parameters and buffers of a model by name."""

    tensors: Mapping[str, Tensor]
    checksum: str

    @staticmethod
    def of(model: nn.Module) -> Weights:
        """A copy of the model as it stands."""
        return Weights.of_tensors(model.published() if isinstance(model, Published) else model.state_dict())

    @staticmethod
    def of_tensors(state: Mapping[str, Tensor]) -> Weights:
        """A copy of a model's state."""
        tensors = {name: t.detach().clone() for name, t in state.items()}
        return Weights(tensors=tensors, checksum=checksum(tensors))

    def load_into(self, model: nn.Module) -> None:
        """Put them into `model` and check what arrived. EngineError where a tensor was changed on the way or is not finite.

        Nothing is changed unless all is well.
        """
        if checksum(self.tensors) != self.checksum:
            raise EngineError("the weights do not match their checksum; they were changed or torn on the way")
        broken = [name for name, t in self.tensors.items() if not torch.isfinite(t).all()]
        if broken:
            raise EngineError(f"refused weights that are not finite: {', '.join(broken[:3])}")
        model.load_state_dict(dict(self.tensors))
        if checksum(model.state_dict()) != self.checksum:
            raise EngineError("the model holds other weights than those it was given; is its dtype another?")


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """Hash of names, shapes, dtypes and bytes; the order of names does not matter."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(tensors):
        t = tensors[name].detach().contiguous().cpu()
        digest.update(f"{name}\x1f{t.dtype}\x1f{tuple(t.shape)}\x1f".encode())
        digest.update(np.ascontiguousarray(t.view(torch.uint8).numpy() if t.ndim else t.numpy()).tobytes())
    return digest.hexdigest()

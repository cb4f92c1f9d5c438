"""Optimiser state as named tensors, independent of parameter order and of the number of ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ninefold.learn.optim.assign import Assigned
from ninefold.learn.sharding import as_like, whole


def pack_state(optimizer: torch.optim.Optimizer, assigned: Sequence[Assigned]) -> dict[str, Tensor]:
    """`PARAMETER/KEY` → whole tensor, for every parameter that has been updated."""
    return {
        f"{a.name}/{key}": whole(value)
        for a in assigned
        for key, value in optimizer.state.get(a.parameter, {}).items()
        if isinstance(value, Tensor)
    }


def unpack_state(optimizer: torch.optim.Optimizer, assigned: Sequence[Assigned], packed: Mapping[str, Tensor]) -> None:
    """Inverse of `pack_state`; what the optimiser held is forgotten."""
    parameters = {a.name: a.parameter for a in assigned}
    mine = {id(p) for group in optimizer.param_groups for p in group["params"]}
    optimizer.state.clear()
    for name, value in packed.items():
        parameter, _, key = name.rpartition("/")
        if id(parameters[parameter]) in mine:
            like = parameters[parameter] if value.ndim else value
            optimizer.state[parameters[parameter]][key] = as_like(value, like)

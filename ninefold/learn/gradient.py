"""The gradient of a whole batch: summed over ranks, divided by the batch's tokens, clipped."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import Parameter

from ninefold.learn.parallel import World
from ninefold.learn.sharding import is_sharded, local


def reduce_gradients(parameters: Sequence[Parameter], tokens: float, clip_norm: float, world: World) -> float:
    """Turn each rank's summed gradients into the batch's mean gradient, on every rank; its norm before clipping.

    `tokens` counts the whole batch, over micro-batches and ranks, so that no split of the batch changes the gradient. A
    parameter that no rank's loss reached keeps no gradient. Gradients of sharded parameters are summed over ranks already,
    and each rank has its rows of them.
    """
    if any(is_sharded(p) for p in parameters):
        return _clip_shards([local(p.grad) for p in parameters if p.grad is not None], tokens, clip_norm, world)
    reached = torch.tensor([float(p.grad is not None) for p in parameters], device=parameters[0].device)
    flat = torch.cat([*(_gradient(p).flatten() for p in parameters), reached])
    world.sum_(flat)
    mean, reached = flat[: -len(parameters)], flat[-len(parameters) :]
    mean.div_(tokens)
    norm = float(torch.linalg.vector_norm(mean))
    if norm > clip_norm:
        mean.mul_(clip_norm / norm)
    parts = mean.split([p.numel() for p in parameters])
    for parameter, part, anywhere in zip(parameters, parts, reached.tolist(), strict=True):
        parameter.grad = part.view_as(parameter) if anywhere else None
    return norm


def _clip_shards(gradients: list[Tensor], tokens: float, clip_norm: float, world: World) -> float:
    """The same for this rank's rows of summed gradients, in place."""
    for g in gradients:
        g.div_(tokens)
    square = torch.stack([g.square().sum() for g in gradients]).sum() if gradients else torch.zeros(())
    world.sum_(square)
    norm = float(square.sqrt())
    if norm > clip_norm:
        for g in gradients:
            g.mul_(clip_norm / norm)
    return norm


def _gradient(parameter: Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad

"""K3 sharded by PyTorch's FSDP2, and what of a sharded tensor lies where (DTensor, rows split as `torch.chunk` does)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from ninefold.model.k3 import K3


def shard(model: K3) -> K3:
    """Split every parameter over all ranks, in place; every rank must hold the same model, and call this.

    Attention and MLP of each layer are gathered one at a time, when they compute, and freed behind it; embedding, head, norms,
    queries and the vision tower stay whole from a forward to the end of its backward. Gradients are summed over ranks, not
    averaged, for the trainer divides by tokens. Quantise before, and make the trainer after.
    """
    assert dist.is_initialized(), "sharding needs ranks: see learn.parallel"
    mesh = init_device_mesh(model.lm_head.weight.device.type, (dist.get_world_size(),))
    blocks = [*model.model.layers, *([] if model.mtp is None else [model.mtp])]
    for block in blocks:
        mlp = block.block_sparse_moe if hasattr(block, "block_sparse_moe") else block.mlp
        for part in (block.self_attn, mlp):
            fully_shard(part, mesh=mesh)
    fully_shard(model, mesh=mesh)
    register_fsdp_forward_method(model, "pictures")
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
    return model


def is_sharded(x: Tensor) -> bool:
    """Whether ranks hold parts of it."""
    return isinstance(x, DTensor)


def local(x: Tensor) -> Tensor:
    """What lies on this rank: all of a plain tensor, this rank's rows of a sharded one."""
    return x.to_local() if isinstance(x, DTensor) else x


def rows_of_ranks(x: Tensor) -> list[range]:
    """The indices along the first axis that each rank holds; one rank holds all of a plain tensor."""
    if not isinstance(x, DTensor):
        return [range(len(x))]
    assert x.placements == (Shard(0),), f"rows alone may be split, not {x.placements}"
    size, most = x.device_mesh.size(), -(-len(x) // x.device_mesh.size())
    return [range(min(rank * most, len(x)), min((rank + 1) * most, len(x))) for rank in range(size)]


def rank_of(x: Tensor) -> int:
    """This rank's place among those that hold `x`."""
    return x.device_mesh.get_local_rank() if isinstance(x, DTensor) else 0


def group_of(x: Tensor) -> dist.ProcessGroup:
    """The ranks that hold a sharded tensor."""
    assert isinstance(x, DTensor)
    return x.device_mesh.get_group()


@torch.no_grad()
def whole(x: Tensor) -> Tensor:
    """All of a tensor, on every rank; ranks of a sharded one must call this together."""
    return x.full_tensor() if isinstance(x, DTensor) else x


def whole_state(model: nn.Module) -> dict[str, Tensor]:
    """The model's state as whole tensors, on every rank; all ranks of a sharded model must call this together."""
    return {name: whole(value) for name, value in model.state_dict().items()}


def load_whole(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """The inverse of `whole_state`, on any number of ranks; every rank has the same `state`."""
    model.load_state_dict({name: as_like(state[name], value) for name, value in model.state_dict().items()})


@torch.no_grad()
def as_like(x: Tensor, like: Tensor) -> Tensor:
    """A copy of a whole tensor, split as `like` is; every rank holds the same `x`."""
    if isinstance(like, DTensor):
        return distribute_tensor(x, like.device_mesh, like.placements, src_data_rank=None)
    return x.clone()

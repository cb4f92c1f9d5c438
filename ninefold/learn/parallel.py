"""One function on several local processes that reduce over gloo: one thread each, none outlives its parent."""

from __future__ import annotations

import ctypes
import math
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess, parent_process
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from ninefold.core.errors import NinefoldError, boundary

P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V")

_PR_SET_PDEATHSIG = 1
_PATIENCE = timedelta(hours=2)
"""How long one rank waits for another: a slow rank is no error, and a dead one is seen by its parent."""
_GRACE_S = 1.0
"""After a failure, how long other ranks' last words are waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The processes that train one model together; alone where size is 1."""

    rank: int = 0
    size: int = 1

    def sum_(self, x: Tensor) -> None:
        """Sum `x` over all ranks, in place."""
        if self.size > 1:
            dist.all_reduce(x)

    def max_(self, x: Tensor) -> None:
        """Take the element-wise largest of all ranks, in place."""
        if self.size > 1:
            dist.all_reduce(x, dist.ReduceOp.MAX)

    def gather(self, value: V) -> list[V]:
        """Every rank's value, in rank order."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values


class RankFailed(NinefoldError):
    """A rank's process died, or something in it raised that is no error of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reply:
    """How a rank ended."""

    time: float
    """Monotonic clock of the machine; −∞ for a rank that could not say."""
    value: Any = None
    error: NinefoldError | None = None
    trace: str = ""


def run_parallel(function: Callable[Concatenate[World, P], R], size: int, *args: P.args, **kwargs: P.kwargs) -> R:
    """function(world, …) on `size` processes; rank 0's return value.

    `function` and its arguments are pickled, so it must be a module's own. With size 1 it runs here. An exception in one rank
    ends all ranks and is raised here, with that rank's traceback as its cause: our own errors as they are, others as
    RankFailed. When this process ends, however that happens, so do they.
    """
    if size == 1:
        return function(World(), *args, **kwargs)
    context = multiprocessing.get_context("spawn")
    processes: list[BaseProcess] = []
    replies: list[Any] = []
    with tempfile.TemporaryDirectory(prefix="ninefold-") as folder:
        try:
            for rank in range(size):
                reply, sender = context.Pipe(duplex=False)
                world = World(rank=rank, size=size)
                job = (sender, os.getpid(), Path(folder, "rendezvous"), world, function, args, kwargs)
                process = context.Process(target=_rank, args=job, name=f"ninefold-rank-{rank}")
                process.start()
                sender.close()
                processes.append(process)
                replies.append(reply)
            return _first_result(replies)
        finally:
            for process in processes:
                process.kill()
            for process in processes:
                process.join()


def _first_result(replies: Sequence[Any]) -> Any:
    """Rank 0's value once every rank has finished; raises as soon as one has failed."""
    finished: dict[int, _Reply] = {}
    while len(finished) < len(replies):
        finished |= _receive(replies, finished, None)
        if any(reply.error for reply in finished.values()):
            # Others fail only because the first one left them alone: let those speak up, then blame the first.
            finished |= _receive(replies, finished, _GRACE_S)
            first = min((reply for reply in finished.values() if reply.error), key=lambda reply: reply.time)
            assert first.error is not None
            raise first.error from RankFailed(first.trace)
    return finished[0].value


def _receive(replies: Sequence[Any], finished: Mapping[int, _Reply], timeout: float | None) -> dict[int, _Reply]:
    """Replies of ranks not yet finished, once at least one is there or the timeout in seconds is over."""
    pending = {rank: reply for rank, reply in enumerate(replies) if rank not in finished}
    ready = wait(list(pending.values()), timeout)
    return {rank: _read(rank, reply) for rank, reply in pending.items() if reply in ready}


def _read(rank: int, reply: Any) -> _Reply:
    try:
        return pickle.loads(reply.recv_bytes())
    except EOFError:
        error = RankFailed(f"rank {rank} died without a word (killed, or out of memory)")
        return _Reply(time=-math.inf, error=error)


def _rank(
    sender: Connection, parent: int, rendezvous: Path, world: World, function: Callable[..., Any], args: Any, kwargs: Any
) -> None:
    die_with_parent(parent)
    torch.set_num_threads(1)
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

    def failed(error: NinefoldError) -> None:
        _send(sender, _Reply(time=time.monotonic(), error=error, trace=traceback.format_exc()))

    with boundary(RankFailed, f"rank {world.rank}", catch=failed):
        dist.init_process_group(
            "gloo", init_method=f"file://{rendezvous}", rank=world.rank, world_size=world.size, timeout=_PATIENCE
        )
        value = function(world, *args, **kwargs)
        dist.barrier()
        dist.destroy_process_group()
        _send(sender, _Reply(time=time.monotonic(), value=value if world.rank == 0 else None))


def _send(sender: Connection, reply: _Reply) -> None:
    # Plain pickle: a connection's own pickler sends tensors as handles to memory that dies with this process.
    sender.send_bytes(pickle.dumps(reply))


def die_with_parent(parent: int) -> None:
    """Make the kernel kill this process when process `parent` ends; elsewhere than on Linux a thread watches for it.

    Ctrl-C is the parent's to answer: a terminal sends it to all processes, and here it is ignored.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "linux":
        threading.Thread(target=_watch_parent, daemon=True).start()
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the call above
        os.kill(os.getpid(), signal.SIGKILL)


def _watch_parent() -> None:
    starter = parent_process()
    assert starter is not None
    starter.join()
    os._exit(1)

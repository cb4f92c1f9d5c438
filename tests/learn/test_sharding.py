"""FSDP2 on 1, 2 and 4 gloo ranks: forward, backward, optimiser and checkpoints equal those of one whole model."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from ninefold.core.layout import DocLayout
from ninefold.core.types import Sample
from ninefold.learn.batch import micro_batches, shards
from ninefold.learn.loss.mtp import MTPConfig, language_loss
from ninefold.learn.loss.sft import sft_loss
from ninefold.learn.optim.adamw import AdamWConfig, adamw
from ninefold.learn.optim.assign import Assigned, Rule
from ninefold.learn.optim.cut import Cut, cuts_of, owned
from ninefold.learn.optim.muon import Muon, MuonConfig
from ninefold.learn.optim.schedule import ScheduleConfig
from ninefold.learn.parallel import World, run_parallel
from ninefold.learn.sharding import local, shard, whole
from ninefold.learn.trainer import Trainer, TrainerConfig
from ninefold.model.k3 import K3
from ninefold.model.presets import preset
from ninefold.model.weights import Weights
from tests.model.test_k3 import draw_ids, spread

Made = tuple[list[Tensor], list[list[Tensor]], Weights, dict[str, float], int]
STEPS = 3
SHAPES = [
    ((16, 12), {"heads": 4}),  # heads of 4 rows: whole on 4 ranks
    ((18, 7), {"heads": 3}),  # heads of 6 rows, cut on 2 and on 4
    ((12, 5), {}),  # one matrix, cut everywhere
    ((3, 9), {}),  # fewer rows than ranks
    ((20, 8), {"heads": 2, "within": (6, 4)}),
    ((6, 4, 10), {}),  # a stack: a matrix is never cut
]


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[World]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'rendezvous'}", rank=0, world_size=1)
    yield World()
    dist.destroy_process_group()


def made() -> K3:
    return spread(K3(preset("tiny", 64), seed=3), 0.05)


def samples(lengths: list[int]) -> list[Sample]:
    rng = np.random.default_rng(5)
    return [Sample(ids=rng.integers(0, 64, n).astype(np.int32), mask=rng.random(n) < 0.7) for n in lengths]


def trained(model: K3, world: World, folder: Path | None, begin: Path | None = None) -> tuple[Weights, dict[str, float]]:
    """Three steps in which gradients and attention are clipped and some rank has nothing to do; saved after two of them.

    With `begin`, the last one only, from there.
    """
    plan = ScheduleConfig(kind="constant", warmup=0.0)
    trainer = Trainer(model, TrainerConfig(steps=STEPS, schedule=plan, clip_norm=0.5, qk_clip=0.05), world=world)
    if begin is not None:
        trainer.load(begin)
    metrics = {}
    while trainer.steps_done < STEPS:
        lengths = [[30, 21, 17, 25, 9, 12], [40], [40, 3]][trainer.steps_done]
        mine = shards(samples(lengths), world.size)[world.rank]
        metrics = trainer.step(micro_batches(mine, 64), partial(language_loss, config=MTPConfig()))
        if folder is not None and trainer.steps_done == 2:
            trainer.save(folder)
    return trainer.weights(), metrics


def passed(model: K3) -> list[Tensor]:
    """Hidden states, logits and every gradient of a packed batch, with the MTP layer's."""
    ids, layout = draw_ids(48, vocab=64), DocLayout.of([20, 28])
    hidden = model(ids, layout)
    logits = model.logits(hidden.final_TD)
    (logits.logsumexp(-1).sum() + model.logits(model.mtp_hidden(hidden, ids, layout)).square().sum()).backward()
    return [
        hidden.final_TD.detach(),
        logits.detach(),
        *(torch.zeros(()) if p.grad is None else whole(p.grad) for p in model.parameters()),
    ]


def optimised(split: bool) -> list[list[Tensor]]:
    """Of both optimisers, weights and momenta after three steps, whole; the same gradients on every rank."""
    rng = torch.Generator().manual_seed(0)
    members: list[Assigned] = []
    for n, (shape, rule) in enumerate([*SHAPES, *SHAPES]):
        value = torch.randn(shape, generator=rng)
        kind = "muon" if n < len(SHAPES) else "adamw"
        parameter = nn.Parameter(distributed(value) if split else value)
        members.append(Assigned(name=str(n), parameter=parameter, rule=Rule(pattern="", optimizer=kind, **rule)))  # pyright: ignore[reportArgumentType]
    optimizers = [Muon(members[: len(SHAPES)], MuonConfig()), adamw(members[len(SHAPES) :], AdamWConfig())]
    for _ in range(3):
        for a in members:
            gradient = torch.randn(a.parameter.shape, generator=rng) * 10 ** float(torch.randn((), generator=rng))
            a.parameter.grad = distributed(gradient) if split else gradient
        for optimizer in optimizers:
            optimizer.step()
    states = [[(p, o.state[p]) for group in o.param_groups for p in group["params"]] for o in optimizers]
    return [[whole(t) for p, state in of for t in (p.detach(), *state.values()) if t.ndim] for of in states]


def distributed(x: Tensor) -> DTensor:
    return distribute_tensor(x, init_device_mesh("cpu", (dist.get_world_size(),)), [Shard(0)])


def on_ranks(world: World, folder: Path, begin: Path | None) -> Made:
    """Everything that the tests below ask of sharded ranks, in one start of them."""
    forward = made()
    held = sum(local(p).numel() for p in shard(forward).parameters())
    sums = [x / (1 if n < 2 else world.size) for n, x in enumerate(passed(forward))]
    weights, metrics = trained(shard(made()), world, folder)
    if begin is not None:
        again, _ = trained(shard(made()), world, None, begin)
        assert world.gather(again.checksum) == [again.checksum] * world.size
        for name, value in again.tensors.items():
            torch.testing.assert_close(value, weights.tensors[name], rtol=0, atol=2e-6, msg=name)
    return sums, optimised(True), weights, metrics, held


def check(made_by_ranks: Made, ranks: int) -> None:
    sums, steps, weights, metrics, held = made_by_ranks
    size = sum(p.numel() for p in made().parameters())
    assert held <= size / ranks * 1.1
    for got, want in zip(sums, passed(made()), strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=1e-6 * max(1.0, float(want.abs().max())))
    (muon, adam), (want_muon, want_adam) = steps, optimised(False)
    assert all(torch.equal(got, want) for got, want in zip(muon, want_muon, strict=True))
    for got, want in zip(adam, want_adam, strict=True):  # PyTorch rounds the last few elements of a tensor otherwise
        torch.testing.assert_close(got, want, rtol=1e-6, atol=0)
    whole_weights, whole_metrics = trained(made(), World(), None)
    for name, value in whole_weights.tensors.items():
        torch.testing.assert_close(weights.tensors[name], value, rtol=0, atol=2e-6, msg=name)
    assert metrics == pytest.approx(whole_metrics, rel=1e-4)
    assert metrics["grad_norm"] > 0.5
    assert metrics["attention/clipped_heads"] > 0


def test_one_rank(alone: World, tmp_path: Path) -> None:
    check(on_ranks(alone, tmp_path, None), 1)


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.full)])
def test_ranks_and_checkpoints_of_another_number(ranks: int, tmp_path: Path) -> None:
    straight, _ = trained(made(), World(), tmp_path / "one")
    check(run_parallel(on_ranks, ranks, tmp_path / "many", tmp_path / "one"), ranks)
    again, _ = trained(made(), World(), None, tmp_path / "many")
    for name, value in straight.tensors.items():
        torch.testing.assert_close(again.tensors[name], value, rtol=0, atol=2e-6, msg=name)


def test_a_sharded_model_trains_without_its_mtp_layer(alone: World) -> None:
    trainer = Trainer(shard(made()), TrainerConfig(steps=1), world=alone)
    before = trainer.weights()
    trainer.step(micro_batches(samples([20]), 64), sft_loss)
    after = trainer.weights()
    moved = {name for name, value in after.tensors.items() if not torch.equal(value, before.tensors[name])}
    assert "model.layers.0.self_attn.q_proj.weight" in moved
    assert not any(name.startswith("mtp.") for name in moved)


def test_only_heads_that_a_rank_cuts_travel_and_their_work_is_shared() -> None:
    assert cuts_of(0, [range(8), range(8, 16)], 4, 3) == []
    (cut,) = cuts_of(0, [range(9), range(9, 18)], 6, 3)
    assert cut.pieces == (range(6, 9), range(9, 12))
    assert cuts_of(0, [range(3), range(3, 6), range(6, 9), range(9, 9)], 9, 2)[0].height == 9
    many = [Cut(member=n, pieces=(range(5), range(5, 10)), cols=10) for n in range(6)]
    assert sorted(c.owner for c in owned(many)) == [0, 0, 0, 1, 1, 1]

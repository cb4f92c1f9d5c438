"""Several local ranks: the same weights as one, errors that travel, no process left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from ninefold.core.errors import Diverged
from ninefold.core.types import Sample
from ninefold.learn.batch import micro_batches, shards
from ninefold.learn.loss.mtp import MTPConfig, language_loss
from ninefold.learn.optim.schedule import ScheduleConfig
from ninefold.learn.parallel import RankFailed, World, run_parallel
from ninefold.learn.trainer import Trainer, TrainerConfig
from ninefold.model.k3 import K3
from ninefold.model.presets import preset
from ninefold.model.weights import Weights


def _samples(lengths: list[int]) -> list[Sample]:
    rng = np.random.default_rng(5)
    return [Sample(ids=rng.integers(0, 64, n).astype(np.int32), mask=rng.random(n) < 0.7) for n in lengths]


def train(world: World, lengths: list[int], steps: int) -> tuple[Weights, dict[str, float], list[str]]:
    """Weights and last metrics after some steps on this rank's shard, and every rank's checksum."""
    config = TrainerConfig(steps=steps, schedule=ScheduleConfig(kind="constant", warmup=0.0))
    trainer = Trainer(K3(preset("tiny", 64), seed=3), config, world=world)
    mine = shards(_samples(lengths), world.size)[world.rank]
    metrics = {}
    for _ in range(steps):
        metrics = trainer.step(micro_batches(mine, 64), partial(language_loss, config=MTPConfig()))
    return trainer.weights(), metrics, world.gather(trainer.weights().checksum)


def fail(world: World, kind: str) -> None:
    """Rank 1 fails as asked while rank 0 waits for it."""
    if world.rank == 1:
        if kind == "ours":
            raise Diverged("the router is gone")
        if kind == "theirs":
            raise ZeroDivisionError("no such number")
        os.kill(os.getpid(), signal.SIGKILL)
    world.sum_(torch.ones(1))


def wait_for_ever(world: World, folder: Path) -> None:
    """Write this rank's process id, then reduce with a rank that never comes."""
    (folder / str(world.rank)).write_text(str(os.getpid()))
    if world.rank == 0:
        world.sum_(torch.ones(1))
    time.sleep(600)


@pytest.mark.parametrize("lengths", [[30, 21, 17, 25, 9, 12], [40]])
def test_two_ranks_end_with_the_weights_of_one(lengths: list[int]):
    alone, metrics_alone, _ = run_parallel(train, 1, lengths, 3)
    both, metrics_both, checksums = run_parallel(train, 2, lengths, 3)
    assert len(checksums) == 2
    assert checksums[0] == checksums[1] == both.checksum
    for name, value in alone.tensors.items():
        torch.testing.assert_close(both.tensors[name], value, rtol=0, atol=1e-6, msg=name)
    assert metrics_both == pytest.approx(metrics_alone, rel=1e-4)


def test_our_own_error_keeps_its_type_and_brings_its_traceback():
    with pytest.raises(Diverged, match="router is gone") as caught:
        run_parallel(fail, 2, "ours")
    assert "in fail" in str(caught.value.__cause__)


@pytest.mark.parametrize(
    ("kind", "words"), [("theirs", "ZeroDivisionError: no such number"), ("killed", "died without a word")]
)
def test_any_other_failure_names_its_rank(kind: str, words: str):
    with pytest.raises(RankFailed, match=words) as caught:
        run_parallel(fail, 2, kind)
    assert "rank 1" in str(caught.value)


def test_a_killed_parent_leaves_no_rank(tmp_path: Path):
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent(f"""
        import sys
        from pathlib import Path
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_parallel import wait_for_ever
        from ninefold.learn.parallel import run_parallel
        if __name__ == "__main__":
            run_parallel(wait_for_ever, 2, Path({str(tmp_path)!r}))
        """)
    )
    parent = subprocess.Popen([sys.executable, str(script)])
    ranks = [tmp_path / "0", tmp_path / "1"]
    _wait(lambda: all(r.exists() and r.read_text() for r in ranks))
    children = [int(r.read_text()) for r in ranks]
    assert all(_alive(pid) for pid in children)
    parent.kill()
    parent.wait()
    _wait(lambda: not any(_alive(pid) for pid in children))


def _alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and unread by its parent does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


def _wait(condition: object) -> None:
    """Poll until true; give up after two minutes."""
    assert callable(condition)
    for _ in range(2400):
        if condition():
            return
        time.sleep(0.05)
    pytest.fail("waited in vain")

"""Pictures that programs show, through the whole flow: played, paused, stored, told, learned from."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from ninefold.agent.env import family
from ninefold.agent.harness.presets import PLAIN, phrases
from ninefold.app.report.trajectories import trajectory_html
from ninefold.app.transcript import print_trajectory
from ninefold.chat.tokenizer import Tokenizer
from ninefold.chat.xtml import Xtml, wire_phrases
from ninefold.core.errors import SandboxUnavailable
from ninefold.core.protocols import Request, Style
from ninefold.core.types import Sample, Trajectory
from ninefold.engine.native import NativeConfig, NativeEngine
from ninefold.engine.scripted import ScriptedEngine
from ninefold.learn.batch import micro_batches
from ninefold.learn.loss.tokens import token_logprobs
from ninefold.model.k3 import K3
from ninefold.model.presets import preset
from ninefold.recipes.budgets import rows_of
from ninefold.rollout.atif import to_atif
from ninefold.rollout.demonstrate import demonstrate, replay
from ninefold.rollout.play import lineup
from ninefold.rollout.scene import Scene
from ninefold.rollout.scheduler import Rollout, RolloutConfig
from ninefold.rollout.store import read_trajectories, write_trajectories
from ninefold.sandbox.namespace import NamespaceRuntime

VISUAL = family("visual")
TASKS = 4


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    runtime = NamespaceRuntime()
    try:
        runtime.check()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    fixed = [*wire_phrases(), *VISUAL.phrases(), *phrases(VISUAL.tools)]
    chat = Xtml(Tokenizer.train(["hello low lower"] * 4, fixed, 700))
    yield Scene(
        chat=chat,
        families={"visual": VISUAL},
        verify=lambda task, final: VISUAL.verify(task, final),
        harness=lambda _: PLAIN,
        runtime=runtime,
    )
    runtime.close()


@pytest.fixture(scope="module")
def made(scene: Scene) -> list[Trajectory]:
    """Demonstrations of level 0 at max effort: one look, and the answer."""
    slots = lineup([(VISUAL.generate("train", 0, seed), "max") for seed in range(TASKS)])
    return demonstrate(slots, lambda slot: VISUAL.demonstrate(slot.task, Style(effort="max", seed=1)), scene)


def test_a_look_shows_what_the_first_view_does_not(made: list[Trajectory]) -> None:
    for trajectory in made:
        assert trajectory.result.status == "pass"
        assert [len(turn.pictures) for turn in trajectory.turns] == [1, 0]
        (closer,) = trajectory.seen(trajectory.turns[0], 0)
        assert (closer.width, closer.height) == (24, 24)
        (row,) = trajectory.rows
        assert row.images[1:] == (closer.hash,)
        assert len(row) < trajectory.task.limits.context


def rollout_of(scene: Scene, made: list[Trajectory]) -> Rollout:
    """A scripted engine plays the demonstrations again, in the rollout's own loop."""
    again = [replace(t, id=t.id.replace("p", "g")) for t in made]
    prompts = [(t.task, t.effort) for t in made]
    config = RolloutConfig(prompts=2, samples=1, lam=0.5)
    return Rollout(engine=ScriptedEngine(replay(again)), source=lambda n: prompts[n], scene=scene, config=config)


def rows(trajectory: Trajectory) -> list:
    return [(row.ids.tolist(), row.loss_mask.tolist(), row.images) for row in trajectory.rows]


def test_a_rollout_that_is_paused_goes_on_elsewhere(scene: Scene, made: list[Trajectory]) -> None:
    """λ pauses one of two in the middle; saved, with its sandbox and its pictures, another rollout goes on with it."""
    first = rollout_of(scene, made)
    done = [t for group in first.iterate() for t in group.trajectories]
    assert first.paused == 1
    second = rollout_of(scene, made)
    second.load(first.save())
    done += [t for _ in range(2) for group in second.iterate() for t in group.trajectories]
    assert len(done) == 3
    assert max(t.resumes for t in done) == 1
    before = {t.task.id: t for t in made}
    for trajectory in done:
        assert rows(trajectory) == rows(before[trajectory.task.id])
        assert trajectory.turns == before[trajectory.task.id].turns
        assert trajectory.result.status == "pass"


def test_a_model_learns_from_what_it_was_shown(scene: Scene, made: list[Trajectory]) -> None:
    """The engine samples behind two pictures what the learner scores alike, and the gradient reaches what sees."""
    model = K3(preset("nano-vision", scene.chat.tokenizer.vocab_size))  # pyright: ignore[reportAttributeAccessIssue]
    engine = NativeEngine(model, stop_ids=scene.chat.stop_ids, config=NativeConfig(rows=4, capacity=512, prompts=4))
    (sample, *_) = samples = rows_of(made)
    assert len(sample.pictures) == 2
    start = int(np.flatnonzero(sample.mask)[-1]) - 2
    engine.submit([Request(id="a", session="a", ids=sample.ids[:start], max_new=6, seed=1, pictures=sample.pictures)])
    (completion,) = engine.poll()
    ids = np.concatenate([sample.ids[:start], completion.ids])
    mask = np.arange(len(ids)) >= start
    streams = {"old_logprob": np.concatenate([np.zeros(start, np.float32), completion.logprobs])}
    (batch,) = micro_batches([Sample(ids=ids, mask=mask, streams=streams, pictures=sample.pictures)], 512, model.sight)
    with torch.no_grad():
        scored = token_logprobs(model, batch)
    assert (scored.logprob_N - scored.stream("old_logprob")).abs().max() < 1e-5
    for batch in micro_batches(samples, 2048, model.sight):
        (-token_logprobs(model, batch).logprob_N.mean()).backward()
    seeing = [p.grad for name, p in model.named_parameters() if "vision" in name and p.grad is not None]
    assert seeing
    assert all(torch.isfinite(grad).all() for grad in seeing)
    assert sum(float(grad.abs().sum()) for grad in seeing) > 0


def test_stores_and_views_show_them(scene: Scene, made: list[Trajectory], tmp_path: Path) -> None:
    write_trajectories(tmp_path / "some.parquet", made)
    back = list(read_trajectories(tmp_path / "some.parquet"))
    assert [t.turns for t in back] == [t.turns for t in made]
    assert [t.pictures for t in back] == [t.pictures for t in made]
    for trajectory in back:
        (closer,) = trajectory.seen(trajectory.turns[0], 0)
        step = next(step for step in to_atif(trajectory)["steps"] if "observation" in step)
        assert step["observation"]["results"][0]["content"] == f"[picture 24×24 {closer.hash}]"
        console = Console(file=io.StringIO(), width=200)
        print_trajectory(trajectory, scene.chat.tokenizer, console, tokens=False)  # pyright: ignore
        assert f"[picture 24×24 {closer.hash[:8]}]" in console.file.getvalue()  # pyright: ignore
        assert trajectory_html(trajectory, str).count("<img ") == 2

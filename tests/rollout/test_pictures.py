"""Pictures through the whole flow: task, episode, engine, pause and restart, store, samples, loss."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ninefold.agent.env import family
from ninefold.agent.harness.compose import Composed
from ninefold.agent.harness.context import ContextPolicy
from ninefold.agent.harness.episode import Episode
from ninefold.agent.harness.presets import PLAIN, phrases
from ninefold.chat.tokenizer import Tokenizer
from ninefold.chat.xtml import Xtml, wire_phrases
from ninefold.core.protocols import Completion, Move, Observation, Style, Tool
from ninefold.core.types import Call, Effort, Limits, Sample, Slot, Task, Trajectory
from ninefold.data.samples import read_samples, sample_of_row, shown, write_samples
from ninefold.engine.native import NativeConfig, NativeEngine
from ninefold.learn.batch import micro_batches
from ninefold.learn.loss.tokens import token_logprobs
from ninefold.media.png import to_png
from ninefold.media.scene import draw
from ninefold.media.view import Box, crop
from ninefold.model.k3 import K3
from ninefold.model.presets import preset
from ninefold.recipes.budgets import rows_of
from ninefold.rollout.atif import to_atif
from ninefold.rollout.demonstrate import demonstrate
from ninefold.rollout.play import lineup
from ninefold.rollout.scene import Scene
from ninefold.rollout.scheduler import Rollout, RolloutConfig
from ninefold.rollout.store import read_trajectories, write_trajectories

PICTURE = family("picture")


@pytest.fixture(scope="module")
def scene() -> Scene:
    fixed = [*wire_phrases(), *PICTURE.phrases(), *phrases(())]
    chat = Xtml(Tokenizer.train(["hello low lower"] * 4, fixed, 700))
    return Scene(chat=chat, families={"picture": PICTURE}, verify=lambda task, final: PICTURE.verify(task, final))


def prompt(number: int) -> tuple[Task, Effort]:
    """An untrained model seldom stops: tight limits of several lengths end its episodes."""
    task = PICTURE.generate("train", number % 3, number)
    return replace(task, limits=Limits(turns=3, new_tokens=8 + 5 * (number % 5), context=300)), ("low", "high", "max")[
        number % 3
    ]


@pytest.fixture(scope="module")
def model(scene: Scene) -> K3:
    return K3(preset("nano-vision", scene.chat.tokenizer.vocab_size))  # pyright: ignore[reportAttributeAccessIssue]


def rollout_of(model: K3, scene: Scene) -> Rollout:
    engine = NativeEngine(model, stop_ids=scene.chat.stop_ids, config=NativeConfig(rows=16, capacity=512, prompts=8))
    return Rollout(engine=engine, source=prompt, scene=scene, config=RolloutConfig(prompts=3, samples=2, lam=0.5), seed=5)


@pytest.fixture(scope="module")
def played(model: K3, scene: Scene) -> list[Trajectory]:
    rollout = rollout_of(model, scene)
    return [t for _ in range(3) for group in rollout.iterate() for t in group.trajectories]


def facts(trajectory: Trajectory) -> list:
    rows = [[r.ids.tolist(), r.logprobs.tolist(), r.loss_mask.tolist(), r.images] for r in trajectory.rows]
    return [rows, *(getattr(trajectory, name) for name in Trajectory.__slots__ if name != "rows")]


def test_a_restart_changes_no_bit(model: K3, scene: Scene, played: list[Trajectory]) -> None:
    first = rollout_of(model, scene)
    again = [t for group in first.iterate() for t in group.trajectories]
    assert first.paused
    second = rollout_of(model, scene)
    second.load(first.save())
    again += [t for _ in range(2) for group in second.iterate() for t in group.trajectories]
    assert list(map(facts, again)) == list(map(facts, played))


def test_budgets_count_a_picture_once_and_the_learner_agrees_with_the_engine(model: K3, played: list[Trajectory]) -> None:
    samples = []
    for trajectory in played:
        (row,) = trajectory.rows
        assert row.images == tuple(draw(picture).hash for picture in trajectory.task.pictures)
        assert (row.ids == 10).sum() == 1
        streams = {"old_logprob": row.logprobs}
        seen = shown(row, trajectory.pictures)
        samples.append(Sample(ids=row.ids, mask=row.loss_mask, streams=streams, pictures=seen))
    assert len(samples) > 8
    with torch.no_grad():
        for batch in micro_batches(samples, 300, model.sight):
            scored = token_logprobs(model, batch)
            assert (scored.logprob_N - scored.stream("old_logprob")).abs().max() < 1e-5


def test_stores_keep_pictures(played: list[Trajectory], tmp_path: Path) -> None:
    write_trajectories(tmp_path / "some.parquet", played)
    assert list(map(facts, read_trajectories(tmp_path / "some.parquet"))) == list(map(facts, played))
    for trajectory in played:
        (picture,) = trajectory.pictures
        asked = next(step for step in to_atif(trajectory)["steps"] if step["source"] == "user")
        assert f"[picture {picture.width}×{picture.height} {picture.hash}]" in asked["message"]
        assert trajectory.task.instruction in asked["message"]
    samples = [sample_of_row(t.rows[0], pictures=t.pictures) for t in played]
    write_samples(tmp_path / "samples.npz", [*samples, replace(samples[0], pictures=())])
    back = read_samples(tmp_path / "samples.npz")
    assert [s.pictures for s in back] == [*(s.pictures for s in samples), ()]
    assert all((a.pixels_HWC == b.pixels_HWC).all() for s, t in zip(samples, back) for a, b in zip(s.pictures, t.pictures))


def test_demonstrations_pass_and_show_what_they_were_made_of(scene: Scene) -> None:
    slots = lineup([(PICTURE.generate("train", level, 3), "max") for level in range(3)])
    made = demonstrate(slots, lambda slot: PICTURE.demonstrate(slot.task, Style(effort="max", seed=1)), scene)
    assert [t.result.status for t in made] == ["pass"] * 3
    assert [len(s.pictures) for s in rows_of(made)] == [1, 1, 1]


class Lens:
    """A family whose tool shows a part of the task's picture."""

    name, domain, levels, isolated = "lens", "general", 1, False
    tools = (Tool(name="crop", description="look closer", parameters={"box": "array"}),)

    def open(self, task: Task, **_: object) -> Lens:
        self.task = task
        return self

    def restore(self, task: Task, saved: bytes, **_: object) -> Lens:
        return self.open(task)

    def call(self, call: Call) -> Observation:
        box: Box = tuple(call.arguments["box"])
        return Observation(text="closer", images=(to_png(crop(draw(self.task.pictures[0]), box)),))

    def save(self) -> bytes:
        return b"-"


def look(episode: Episode, left: int) -> None:
    """One turn that calls the tool."""
    move = Move(think="look", calls=(Call(tool="crop", arguments={"box": [left, 0, left + 6, 6]}),))
    ids = episode.chat.completion(episode.harness.to_wire(move, episode.tools))
    request = episode.request()
    episode.accept(
        Completion(request=request.id, ids=ids, logprobs=np.zeros(len(ids), np.float32), policy_version=0, finish="stop")
    )


@pytest.mark.parametrize("kind", ["none", "clear"])
def test_a_tool_shows_pictures_too(scene: Scene, kind: str) -> None:
    """They stand in the row before the result's text, survive a save, and go where history is cleared."""
    lens = Lens()
    task = replace(PICTURE.generate("train", 0, 1), family="lens", tools=("crop",), limits=Limits(context=900))
    policy = ContextPolicy(kind=kind, threshold=0.3, keep=1)  # pyright: ignore[reportArgumentType]
    harness = Composed(name="x", interface=PLAIN.interface, prompt=PLAIN.prompt, context=policy)
    slot = Slot(task=task, effort="max", group="g", index=0, seed=0)
    episode = Episode.start(slot, family=lens, harness=harness, chat=scene.chat)  # pyright: ignore[reportArgumentType]
    whole = draw(task.pictures[0])
    parts = [crop(whole, (left, 0, left + 6, 6)) for left in (1, 5, 9)]
    for n, left in enumerate((1, 5, 9)):
        look(episode, left)
        request = episode.request()
        assert request.pictures[-1] == parts[n]
        assert (request.ids == 10).sum() == len(request.pictures)
        saved = Episode.restore(episode.save(), families={"lens": lens}, chat=scene.chat)  # pyright: ignore
        assert saved.request().pictures == request.pictures
        episode = saved
    if kind == "none":
        assert request.pictures == (whole, *parts)
        assert "image 6x6" in scene.chat.decode(request.ids)
    else:
        assert request.pictures == (whole, parts[-1])

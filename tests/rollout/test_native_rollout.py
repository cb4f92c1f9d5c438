"""Partial rollout with the native engine: λ = 1 is the synchronous loop, and a restart changes no bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from ninefold.core.types import Effort, Limits, Task, Trajectory
from ninefold.engine.native import NativeConfig, NativeEngine
from ninefold.model.k3 import K3
from ninefold.model.presets import tiny
from ninefold.model.weights import Weights
from ninefold.rollout.play import lineup
from ninefold.rollout.scene import Scene
from ninefold.rollout.scheduler import Rollout, RolloutConfig
from tests.rollout.ticking import prompt


def facts(trajectory: Trajectory) -> list:
    rows = [[r.ids.tolist(), r.logprobs.tolist(), r.loss_mask.tolist(), r.versions.tolist()] for r in trajectory.rows]
    return [rows, *(getattr(trajectory, name) for name in Trajectory.__slots__ if name != "rows")]


def short_prompt(number: int) -> tuple[Task, Effort]:
    """An untrained model seldom stops: tight limits of several lengths end its episodes."""
    task, effort = prompt(number)
    return replace(task, limits=Limits(turns=3, new_tokens=8 + 5 * (number % 5), context=400)), effort


@pytest.fixture(scope="module")
def model(scene: Scene) -> K3:
    torch.manual_seed(0)
    return K3(tiny(scene.chat.tokenizer.vocab_size))  # pyright: ignore[reportAttributeAccessIssue]


def engine_for(model: K3, scene: Scene) -> NativeEngine:
    return NativeEngine(model, stop_ids=scene.chat.stop_ids, config=NativeConfig(rows=16, capacity=512, prompts=8))


def rollout_for(engine: NativeEngine, scene: Scene, lam: float) -> Rollout:
    config = RolloutConfig(prompts=3, samples=3, lam=lam)
    return Rollout(engine=engine, source=short_prompt, scene=scene, config=config, seed=5)


def synchronous(engine: NativeEngine, scene: Scene, first: int, prompts: int, samples: int) -> list[list[Trajectory]]:
    """The synchronous algorithm, plainly: all samples of all prompts are played until the last one ends."""
    slots = lineup([short_prompt(n) for n in range(first + prompts)], samples=samples, seed=5, name="g")[first * samples :]
    episodes = list(scene.start(slots))
    ready = {episode.session: episode for episode in episodes if not episode.done}
    flying = {}
    while ready or flying:
        requests = [episode.request() for episode in ready.values()]
        flying |= {request.id: episode for request, episode in zip(requests, ready.values())}
        engine.submit(requests)
        ready = {}
        for completion in engine.poll():
            episode = flying.pop(completion.request)
            session = episode.session
            episode.accept(completion)
            if episode.done:
                engine.release(session)
            else:
                ready[episode.session] = episode
    graded = [e.conclude(scene.verify(e.slot.task, e.final())) for e in episodes]  # pyright: ignore[reportArgumentType]
    return [graded[n : n + samples] for n in range(0, len(graded), samples)]


def test_full_lambda_equals_the_synchronous_loop_bit_for_bit(model: K3, scene: Scene) -> None:
    partial, plain = rollout_for(engine_for(model, scene), scene, lam=1.0), engine_for(model, scene)
    for iteration in range(2):
        groups = partial.iterate()
        expected = synchronous(plain, scene, 3 * iteration, 3, 3)
        assert [[facts(t) for t in g.trajectories] for g in groups] == [[facts(t) for t in g] for g in expected]
    assert any(len(t.turns) > 0 and t.new_tokens > 0 for g in groups for t in g.trajectories)


def test_a_restart_between_iterations_changes_no_bit(model: K3, scene: Scene) -> None:
    weights = [Weights.of(model)]
    torch.manual_seed(1)
    for _ in range(3):
        tensors = {k: v + 0.05 * torch.randn_like(v) if v.is_floating_point() else v for k, v in weights[-1].tensors.items()}
        torch.manual_seed(1)
        changed = K3(tiny(scene.chat.tokenizer.vocab_size))  # pyright: ignore[reportAttributeAccessIssue]
        changed.load_state_dict(tensors)
        weights.append(Weights.of(changed))

    def run(restart: bool) -> list[list]:
        engine = engine_for(model, scene)
        partial = rollout_for(engine, scene, lam=0.5)
        steps = []
        for version, handle in enumerate(weights):
            engine.load(handle, version)
            groups = partial.iterate()
            steps.append([facts(t) for g in groups for t in g.trajectories])
            if restart:
                saved = partial.save()
                engine = engine_for(model, scene)
                partial = rollout_for(engine, scene, lam=0.5)
                partial.load(saved)
        return steps

    whole = run(restart=False)
    assert run(restart=True) == whole
    versions = [np.unique([v for row in t[0] for v in row[3] if v >= 0]) for step in whole for t in step]
    assert any(len(v) > 1 for v in versions), "some trajectory spans several versions"

"""Partial rollout against the plain loop, over pauses, new weights and restarts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ninefold.core.protocols import Request
from ninefold.core.seeds import seed_of
from ninefold.core.types import Group, IntArray, Slot, Trajectory
from ninefold.engine.scripted import ScriptedEngine
from ninefold.rollout.play import lineup, play
from ninefold.rollout.scene import Scene
from ninefold.rollout.scheduler import Rollout, RolloutConfig
from tests.rollout.ticking import FAMILIES, TickingEngine, prompt

Respond = Callable[[Request], IntArray]


def facts(trajectory: Trajectory) -> list:
    rows = [[r.ids.tolist(), r.logprobs.tolist(), r.loss_mask.tolist(), r.versions.tolist()] for r in trajectory.rows]
    return [rows, *(getattr(trajectory, name) for name in Trajectory.__slots__ if name != "rows")]


def rollout(engine, scene: Scene, **config) -> Rollout:
    return Rollout(engine=engine, source=prompt, scene=scene, config=RolloutConfig(**config), seed=7)


def synchronous(engine, scene: Scene, first: int, prompts: int, samples: int) -> list[list[Trajectory]]:
    """The naive algorithm: all samples of `prompts` prompts, each played until it ends."""
    groups = []
    for number in range(first, first + prompts):
        task, effort = prompt(number)
        group = []
        for index in range(samples):
            name = f"g{number:06d}"
            slot = Slot(task=task, effort=effort, group=name, index=index, seed=seed_of(7, name, index))
            (episode,) = scene.start([slot])
            while not episode.done:
                engine.submit([episode.request()])
                (completion,) = engine.poll()
                episode.accept(completion)
            final = episode.final()
            group.append(episode.conclude(None if final is None else scene.verify(task, final)))
        groups.append(group)
    return groups


@pytest.mark.parametrize("kind", [TickingEngine, ScriptedEngine])
def test_full_lambda_equals_the_synchronous_loop(scene: Scene, respond: Respond, kind: type) -> None:
    partial = rollout(kind(respond), scene, prompts=3, samples=4, lam=1.0)
    for iteration in range(3):
        groups = partial.iterate()
        expected = synchronous(kind(respond), scene, 3 * iteration, 3, 4)
        assert [[facts(t) for t in g.trajectories] for g in groups] == [[facts(t) for t in g] for g in expected]
        assert (partial.paused, partial.waiting) == (0, 0)


def iterations(scene: Scene, respond: Respond, count: int, *, restart: bool, **config) -> tuple[list[list[Group]], Rollout]:
    engine = TickingEngine(respond)
    partial = rollout(engine, scene, **config)
    result = []
    for version in range(count):
        engine.policy_version = version
        result.append(partial.iterate())
        if restart:
            saved = partial.save()
            engine = TickingEngine(respond)
            partial = rollout(engine, scene, **config)
            partial.load(saved)
            assert partial.save() == saved
    return result, partial


@pytest.mark.parametrize("lam", [0.2, 0.5, 0.8])
def test_restarts_change_nothing(scene: Scene, respond: Respond, lam: float) -> None:
    whole, _ = iterations(scene, respond, 5, restart=False, prompts=4, samples=4, lam=lam)
    again, _ = iterations(scene, respond, 5, restart=True, prompts=4, samples=4, lam=lam)
    assert [[facts(t) for g in step for t in g.trajectories] for step in again] == [
        [facts(t) for g in step for t in g.trajectories] for step in whole
    ]


def test_partial_work_spans_versions_and_loses_nothing(scene: Scene, respond: Respond) -> None:
    steps, partial = iterations(scene, respond, 6, restart=False, prompts=4, samples=4, lam=0.4)
    groups = [group for step in steps for group in step]
    trajectories = [t for group in groups for t in group.trajectories]
    assert len({t.id for t in trajectories}) == len(trajectories) == 4 * len(groups)
    assert partial.cursor * 4 >= len(trajectories) + partial.paused + partial.waiting
    spanning = [t for t in trajectories if len({v for row in t.rows for v in row.versions.tolist()} - {-1}) > 1]
    assert spanning
    assert all(t.resumes > 0 for t in spanning)
    whole = {t.id: t for g in synchronous(TickingEngine(respond), scene, 0, partial.cursor, 4) for t in g}
    for t in trajectories:
        same = whole[t.id]
        assert [row.ids.tolist() for row in t.rows] == [row.ids.tolist() for row in same.rows]
        assert [row.logprobs.tolist() for row in t.rows] == [row.logprobs.tolist() for row in same.rows]
        assert (t.turns, t.result, t.spend) == (same.turns, same.result, same.spend)


def test_engine_sees_at_most_all_slots_and_every_session_is_released(scene: Scene, respond: Respond) -> None:
    engine = TickingEngine(respond)
    partial = rollout(engine, scene, prompts=3, samples=4, lam=1.0)
    groups = partial.iterate()
    assert engine.most == 12
    assert sorted(engine.released) == sorted(f"{t.id}#0" for g in groups for t in g.trajectories)
    assert engine.in_flight == 0


def test_stale_work_ends_with_a_reason_and_stays_in_its_group(scene: Scene, respond: Respond) -> None:
    steps, _ = iterations(scene, respond, 8, restart=False, prompts=4, samples=4, lam=0.1, max_resumes=0)
    trajectories = [t for step in steps for g in step for t in g.trajectories]
    stale = [t for t in trajectories if t.stop == "stale"]
    assert stale
    assert all(t.result.status == "invalid" and "paused" in t.result.detail for t in stale)


def test_a_broken_verifier_gives_invalid_results(scene: Scene, respond: Respond) -> None:
    def broken(task: object, final: object):
        raise RuntimeError("no judge today")

    broken_scene = Scene(chat=scene.chat, families=FAMILIES, verify=broken)
    groups = rollout(ScriptedEngine(respond), broken_scene, prompts=1, samples=2).iterate()
    assert {t.result.status for g in groups for t in g.trajectories} == {"invalid"}
    assert "no judge today" in groups[0].trajectories[0].result.detail


@pytest.mark.parametrize("width", [1, 5, 64])
def test_play_keeps_order_and_width(scene: Scene, respond: Respond, width: int) -> None:
    slots = lineup([prompt(n) for n in range(6)], samples=3, seed=7, name="g")
    engine = TickingEngine(respond)
    played = play(slots, engine=engine, scene=scene, width=width)
    assert [t.id for t in played] == [s.id for s in slots]
    assert engine.most == min(width, len(slots))
    assert [facts(t) for t in played] == [facts(t) for g in synchronous(TickingEngine(respond), scene, 0, 6, 3) for t in g]
    assert np.mean([t.result.status == "pass" for t in played]) > 0.3

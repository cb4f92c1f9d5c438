"""Deadlines of an episode and of a whole rollout: what they cut off is invalid and named, what was finished is kept."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ninefold.agent.env import family
from ninefold.agent.env.verify import FreshVerifier
from ninefold.agent.reward.shape import reward_group
from ninefold.core.errors import SandboxUnavailable, UserError
from ninefold.core.protocols import Completion, Request, Style
from ninefold.core.types import Group, IntArray, Limits, Result, Task, Trajectory
from ninefold.engine.scripted import ScriptedEngine
from ninefold.learn.loss.advantage import advantages
from ninefold.recipes.rl import samples_of
from ninefold.rollout.deadline import DeadlineConfig
from ninefold.rollout.demonstrate import demonstrate
from ninefold.rollout.play import lineup, play
from ninefold.rollout.scene import Scene
from ninefold.rollout.scheduler import Rollout, RolloutConfig
from ninefold.sandbox.memory import MemoryRuntime
from ninefold.sandbox.namespace import NamespaceRuntime
from tests.rollout.ticking import FAMILIES, prompt

Respond = Callable[[Request], IntArray]

MANY = 2_193
"""Rollouts of the run of which one verification held up all (spec 11, tooling 2)."""


class Watch:
    """A clock that others move."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class SlowEngine(ScriptedEngine):
    """Takes a while for each answer, and for one session all the time that there is, until it is cancelled."""

    def __init__(self, respond: Respond, watch: Watch, *, stuck: str = "nobody") -> None:
        super().__init__(respond)
        self._watch = watch
        self._stuck = stuck

    def poll(self) -> list[Completion]:
        self._watch.seconds += 0.03
        if self._queue[0].session.startswith(self._stuck):
            self._queue.rotate(-1)
        while self._queue[0].session.startswith(self._stuck) and self._queue[0].id not in self._cancelled:
            time.sleep(0.01)
            self._watch.seconds += 1.0
        return super().poll()


def test_an_episode_ends_by_its_deadline_and_names_itself(scene: Scene, respond: Respond) -> None:
    watch, slots = Watch(), lineup([prompt(n) for n in range(4)], samples=2, seed=7, name="g")
    timed = replace(scene, deadlines=DeadlineConfig(episode=0.8), now=watch)
    played = play(slots, engine=SlowEngine(respond, watch, stuck="g000002/1"), scene=timed)
    (late,) = (t for t in played if not t.valid)
    assert (late.id, late.stop) == ("g000002/1", "error")
    assert "deadlines.episode = 0.8" in late.result.detail
    free = play(slots, engine=ScriptedEngine(respond), scene=scene)
    assert [t.result for t in played if t.valid] == [t.result for t in free if t.id != late.id]


def test_a_rollout_ends_by_its_deadline_with_what_is_finished(scene: Scene, respond: Respond) -> None:
    watch, slots = Watch(), lineup([prompt(n) for n in range(40)], seed=7, name="g")
    timed = replace(scene, deadlines=DeadlineConfig(rollout=1.0), now=watch)
    played = play(slots, engine=SlowEngine(respond, watch), scene=timed, width=4)
    assert [t.id for t in played] == [slot.id for slot in slots]
    free = play(slots, engine=ScriptedEngine(respond), scene=scene)
    finished = [n for n, t in enumerate(played) if t.valid]
    assert 4 < len(finished) < 30
    assert [played[n].result for n in finished] == [free[n].result for n in finished]
    reasons = [t.result.detail.split()[0] for t in played if not t.valid]
    assert set(reasons) == {"in", "not"}, "in play, and not begun"
    assert reasons.count("in") <= 4


def test_a_verifier_of_ones_own_that_is_slow_is_cut_too(scene: Scene, respond: Respond) -> None:
    watch = Watch()

    def slow(task: Task, final: Mapping[str, Any]) -> Result:
        watch.seconds += 0.1
        return FAMILIES[task.family].verify(task, final)

    timed = replace(scene, verify=slow, deadlines=DeadlineConfig(rollout=1.0), now=watch)
    played = play(lineup([prompt(n) for n in range(30)], seed=7, name="g"), engine=ScriptedEngine(respond), scene=timed)
    assert sum(t.valid for t in played) in (10, 11)


def test_an_iteration_pauses_at_its_deadline_and_loses_nothing(scene: Scene, respond: Respond) -> None:
    """What is left goes on in the next one; where no group is complete the run ends and says who was still at it."""

    def rollout(seconds: float) -> Rollout:
        watch = Watch()
        timed = replace(scene, deadlines=DeadlineConfig(rollout=seconds), now=watch)
        config = RolloutConfig(prompts=12, samples=2, lam=1.0)
        return Rollout(engine=SlowEngine(respond, watch), source=prompt, scene=timed, config=config, seed=7)

    timed = rollout(1.0)
    groups = timed.iterate()
    assert 0 < len(groups) < 12
    assert all(t.valid for group in groups for t in group.trajectories)
    assert timed.paused > 0
    with pytest.raises(UserError, match=r"still playing: g000000/1 .arithmetic/train/0/0."):
        rollout(0.02).iterate()


def harbor_data(test: bytes) -> dict[str, Any]:
    """Of a Harbor task of one line of tests, which may take an hour."""
    tests = {"test.sh": [0o755, base64.b64encode(test).decode()]}
    settings = {"workdir": "/app", "environment": {}, "verifier_seconds": 3_600.0}
    return {"files": {}, "tests": tests, "solution": {}, **settings}


def test_the_run_of_2193_keeps_2192(scene: Scene) -> None:
    """One task's tests sleep for an hour, and may. The deadline of the whole rollout ends it, in the real judge."""
    try:
        NamespaceRuntime().check()
    except SandboxUnavailable as error:
        pytest.skip(f"this machine cannot isolate: {error}")
    arithmetic = FAMILIES["arithmetic"]
    tasks = [arithmetic.generate("train", 0, n) for n in range(64)]
    shown = demonstrate(
        lineup([(task, "low") for task in tasks], name="shown"),
        lambda slot: arithmetic.demonstrate(slot.task, Style(effort="low", seed=1)),
        scene,
    )
    answers = {t.task.instruction: t.rows[0].segments[-1].ids for t in shown}

    def run(test: bytes, deadlines: DeadlineConfig) -> list[Trajectory]:
        odd = replace(tasks[5], id="odd", family="harbor", data=harbor_data(test), tools=("bash",), limits=Limits())
        slots = lineup([(odd if n == 5 else tasks[n % 64], "low") for n in range(MANY)], name="h")
        said = {f"{slot.id}#0": answers[slot.task.instruction] for slot in slots}
        return play(
            slots, engine=ScriptedEngine(lambda request: said[request.session]), scene=replace(timed, deadlines=deadlines)
        )

    with FreshVerifier(seconds=3_600.0) as verify:
        # Their clock stands while they play, so that a busy machine changes nothing; the judge's own runs.
        families = {**FAMILIES, "harbor": family("harbor")}
        timed = replace(scene, families=families, runtime=MemoryRuntime(), verify=verify, now=Watch())
        begun = time.monotonic()
        quick = run(b"echo 0 > /logs/verifier/reward.txt", DeadlineConfig())
        seconds = 3.0 + 2 * (time.monotonic() - begun)
        played = run(b"sleep 3600", DeadlineConfig(rollout=seconds))
    assert all(t.valid for t in quick)
    assert [t.id for t in played] == [t.id for t in quick]
    assert [n for n, t in enumerate(played) if not t.valid] == [5]
    assert "deadline passed while the verifier was still at it" in played[5].result.detail
    assert [t.result for n, t in enumerate(played) if n != 5] == [t.result for n, t in enumerate(quick) if n != 5]


def test_counted_as_failed_the_deadline_would_teach(scene: Scene, respond: Respond) -> None:
    """The naive way gives an invalid attempt the score 0: its tokens are pushed away, and its siblings' are praised for a
    clock. Left out, a group of equal outcomes teaches nothing."""
    (task, effort) = prompt(0)
    attempts = play(lineup([(task, effort)], samples=4, seed=7, name="g"), engine=ScriptedEngine(respond), scene=scene)
    passed = [replace(t, result=Result(status="pass", score=1.0)) for t in attempts[1:]]
    cut = replace(attempts[0], result=Result(status="invalid", detail="deadlines.rollout"))
    group = Group(id="g", task=task, effort=effort, trajectories=(cut, *passed))

    naive = replace(group, trajectories=(replace(cut, result=Result(status="fail")), *passed))
    rewards = [m.reward for m in reward_group(naive).members]
    np.testing.assert_allclose(advantages(rewards, ["g"] * 4), [-0.75, 0.25, 0.25, 0.25])
    assert len(samples_of([reward_group(naive)], version=0)[0]) == 4

    cohort = reward_group(group)
    assert cohort.invalid == 1
    moving, still = samples_of([cohort], version=0)
    assert moving == []
    assert len(still) == 3

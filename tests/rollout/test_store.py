"""Trajectories to parquet and back, look-up, redaction, ATIF."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from ninefold.core.errors import UserError
from ninefold.core.protocols import Request
from ninefold.core.types import IntArray, Trajectory, Turn
from ninefold.rollout.atif import to_atif
from ninefold.rollout.play import lineup, play
from ninefold.rollout.scene import Scene
from ninefold.rollout.scheduler import Rollout, RolloutConfig
from ninefold.rollout.store import find_trajectory, read_trajectories, write_trajectories
from tests.rollout.ticking import TickingEngine, prompt


@pytest.fixture(scope="module")
def trajectories(scene: Scene, respond: Callable[[Request], IntArray]) -> list[Trajectory]:
    """Some of them paused on the way, over several versions."""
    engine = TickingEngine(respond)
    rollout = Rollout(engine=engine, source=prompt, scene=scene, config=RolloutConfig(prompts=4, samples=3, lam=0.5), seed=7)
    groups = []
    for version in range(4):
        engine.policy_version = version
        groups += rollout.iterate()
    return [trajectory for group in groups for trajectory in group.trajectories]


def test_round_trip(trajectories: list[Trajectory], tmp_path: Path) -> None:
    experts = np.arange(2 * 3 * 2, dtype=np.uint16)
    row = trajectories[0].rows[0]
    first = replace(
        row.segments[0],
        mask=np.arange(len(row.segments[0].ids)) % 2 == 0,
        images=("aa",),
        expert_ids=np.resize(experts, (len(row.segments[0].ids), 3, 2)),
    )
    rich = replace(trajectories[0], rows=(replace(row, segments=(first, *row.segments[1:])),))
    written = [rich, *trajectories[1:]]
    write_trajectories(tmp_path / "000.parquet", written[:2])
    write_trajectories(tmp_path / "001.parquet", written[2:])
    read = list(read_trajectories(tmp_path))
    assert len(read) == len(written)
    for a, b in zip(read, written):
        assert all(getattr(a, name) == getattr(b, name) for name in Trajectory.__slots__ if name != "rows")
        for s, t in zip((s for r in a.rows for s in r.segments), (s for r in b.rows for s in r.segments)):
            assert (s.source, s.message, s.role, s.policy_version, s.finish_reason, s.images) == (
                t.source,
                t.message,
                t.role,
                t.policy_version,
                t.finish_reason,
                t.images,
            )
            for name in ("ids", "logprobs", "mask", "expert_ids"):
                assert np.array_equal(getattr(s, name), getattr(t, name)) or getattr(s, name) is getattr(t, name) is None
    assert pq.read_table(tmp_path / "001.parquet")["status"].to_pylist() == [t.result.status for t in written[2:]]


def test_look_up(trajectories: list[Trajectory], tmp_path: Path) -> None:
    write_trajectories(tmp_path / "a.parquet", trajectories)
    assert find_trajectory(tmp_path, trajectories[3].id).turns == trajectories[3].turns
    with pytest.raises(UserError, match=trajectories[0].id):
        find_trajectory(tmp_path, "nobody")
    with pytest.raises(UserError, match="none at all"):
        find_trajectory(tmp_path / "empty", "nobody")


def test_secrets_are_redacted(trajectories: list[Trajectory], tmp_path: Path) -> None:
    secret = "sk-" + "a1B2" * 8
    turn = Turn(think=f"use {secret}", response=None, calls=(), observations=())
    leaky = replace(trajectories[0], turns=(turn, *trajectories[0].turns[1:]))
    write_trajectories(tmp_path / "a.parquet", [leaky])
    assert secret.encode() not in pq.read_table(tmp_path / "a.parquet")["record"][0].as_py().encode()
    assert secret not in json.dumps(to_atif(leaky))


def test_atif_holds_every_turn_and_token(trajectories: list[Trajectory]) -> None:
    assert any(len(t.turns) > 1 for t in trajectories)
    for trajectory in trajectories:
        atif = json.loads(json.dumps(to_atif(trajectory)))
        assert [step["step_id"] for step in atif["steps"]] == list(range(1, len(atif["steps"]) + 1))
        agent = [step for step in atif["steps"] if step["source"] == "agent"]
        assert len(agent) == len(trajectory.turns)
        sampled = np.concatenate([row.ids[row.sampled_mask] for row in trajectory.rows]).tolist()
        assert [token for step in agent for token in step["metrics"]["completion_token_ids"]] == sampled
        assert sum(len(step["metrics"]["logprobs"]) for step in agent) == trajectory.new_tokens
        assert [len(step.get("tool_calls", ())) for step in agent] == [len(turn.calls) for turn in trajectory.turns]
        assert all(len(step["metrics"]["prompt_token_ids"]) == step["metrics"]["prompt_tokens"] for step in agent)
        assert agent[0]["metrics"]["prompt_tokens"] == len(trajectory.rows[0].segments[0].ids) + sum(
            len(s.ids) for s in trajectory.rows[0].segments[1:] if s.source == "rendered" and s.message <= _first(trajectory)
        )


def _first(trajectory: Trajectory) -> int:
    return next(s.message for s in trajectory.rows[0].segments if s.source == "sampled")


def test_played_once_more_from_disk(scene: Scene, respond: Callable[[Request], IntArray], tmp_path: Path) -> None:
    played = play(lineup([prompt(n) for n in range(4)], seed=7, name="g"), engine=TickingEngine(respond), scene=scene)
    write_trajectories(tmp_path / "a.parquet", played)
    assert [t.result for t in read_trajectories(tmp_path)] == [t.result for t in played]

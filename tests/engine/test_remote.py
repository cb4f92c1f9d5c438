"""A model behind an OpenAI-compatible server plays like any other: harness, worlds and verdicts are ours."""

from __future__ import annotations

import socket

import pytest

from ninefold.agent.env import family
from ninefold.agent.env.play import play
from ninefold.agent.env.script import Recorder
from ninefold.agent.harness.presets import preset
from ninefold.chat.spelled import Spelled, spell
from ninefold.core.protocols import Request, offered
from ninefold.core.types import Slot, Task
from ninefold.engine.remote import RemoteEngine
from ninefold.rollout.play import play as roll
from ninefold.rollout.scene import Scene
from tests.data.tasks.answering import answering


def slots(tasks: list[Task]) -> list[Slot]:
    return [Slot(task=task, effort="high", group=task.id, index=0, seed=n) for n, task in enumerate(tasks)]


@pytest.mark.parametrize("harness", ["plain", "claude_code"])
def test_gold_of_a_server_passes(harness: str) -> None:
    kind, view, scripts = family("assistant"), preset(harness), {}
    tasks = {(task := kind.generate("train", 1, seed)).instruction: task for seed in range(4)}
    for task in tasks.values():
        policy = Recorder(kind.gold(task))
        play(kind, task, policy, task.seed)
        scripts[task.instruction] = [view.to_wire(move, offered(kind, task)) for move in policy.moves]
    scene = Scene(families={"assistant": kind}, harness=lambda slot: view, chat=Spelled(), verify=kind.verify)
    with answering(scripts) as url:
        engine = RemoteEngine(url, "scripted")
        played = roll(slots([*tasks.values()]), engine=engine, scene=scene)
        engine.close()
    assert [trajectory.result.status for trajectory in played] == ["pass"] * len(tasks)
    assert all(len(t.turns) == len(scripts[t.task.instruction]) for t in played)


def test_a_request_that_nobody_wants_comes_back() -> None:
    """Though its server never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        engine = RemoteEngine(f"http://127.0.0.1:{silent.getsockname()[1]}", "silent")
        ids = spell({"tools": [], "effort": "low"})
        engine.submit([Request(id=name, session=name, ids=ids, max_new=9, seed=0) for name in ("a", "b")])
        engine.cancel(["b", "nobody's"])
        assert [(c.request, c.finish) for c in engine.poll()] == [("b", "cancelled")]
        assert [(c.request, c.finish) for c in engine.pause()] == [("a", "paused")]
        assert (engine.in_flight, engine.poll()) == (0, [])
        engine.close()


def test_a_server_that_fails_makes_it_invalid() -> None:
    kind = family("arithmetic")
    scene = Scene(families={"arithmetic": kind}, harness=lambda slot: preset("plain"), chat=Spelled(), verify=kind.verify)
    engine = RemoteEngine("http://127.0.0.1:9", "nobody")
    (trajectory,) = roll(slots([kind.generate("train", 0, 0)]), engine=engine, scene=scene)
    engine.close()
    assert (trajectory.result.status, trajectory.result.detail) == ("invalid", "generation failed")

"""A checkout of tau2-bench beside us: reference actions give its own hashes, and our agent loop drives its domains."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ninefold.agent.env import family
from ninefold.agent.env.play import play
from ninefold.agent.env.script import Recorder
from ninefold.agent.env.tau2 import checkout
from ninefold.agent.env.verify import FreshVerifier
from ninefold.agent.harness.presets import preset
from ninefold.chat.spelled import Spelled
from ninefold.core.types import Slot
from ninefold.data.tasks.tau2 import import_domain
from ninefold.rollout.demonstrate import demonstrate
from ninefold.rollout.scene import Scene

ROOT = Path(__file__).parents[3] / "runs" / "referees"
PLACES = {
    checkout.PLACE: os.environ.get(checkout.PLACE, str(ROOT / "tau2")),
    checkout.PYTHON: os.environ.get(checkout.PYTHON, str(ROOT / "tau2-env" / "bin" / "python")),
}
HERE = Path(PLACES[checkout.PLACE], "src").is_dir() and Path(PLACES[checkout.PYTHON]).is_file()

pytestmark = [
    pytest.mark.referee,
    pytest.mark.skipif(not HERE, reason="no checkout of tau2-bench (NINEFOLD_TAU2) or no interpreter (`make referees`)"),
]


@pytest.fixture(autouse=True)
def _places(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, place in PLACES.items():
        monkeypatch.setenv(name, place)


@pytest.mark.parametrize(("domain", "most"), [("mock", None), ("retail", 8)])
def test_reference_actions_come_to_its_own_state(domain: str, most: int | None) -> None:
    """Played through our world they give the hashes that tau2's environment has after its own replay, and pass."""
    tasks, _ = import_domain(domain, most)
    kind = family("tau2")
    finals = []
    for task in tasks:
        result, final = play(kind, task, kind.gold(task))
        assert (final["agent"], final["user"]) == (task.data["gold"]["agent"], task.data["gold"]["user"])
        assert (result.status, result.score) == ("pass", 1.0)
        for name, hack in kind.hacks(task).items():
            assert play(kind, task, hack)[0].score == 0.0, name
        finals.append((task, final))
    assert tasks
    with FreshVerifier() as verify:
        assert {verify(task, final).status for task, final in finals} == {"pass"}


@pytest.mark.parametrize("harness", ["plain", "claude_code"])
def test_the_agent_loop_drives_a_domain(harness: str) -> None:
    tasks, _ = import_domain("mock")
    kind = family("tau2")
    scene = Scene(families={"tau2": kind}, harness=lambda slot: preset(harness), chat=Spelled(), verify=kind.verify)
    slots = [Slot(task=task, effort="max", group=task.id, index=0, seed=0) for task in tasks]
    played = demonstrate(slots, lambda slot: Recorder(kind.gold(slot.task)), scene)
    assert [trajectory.result.status for trajectory in played] == ["pass"] * len(tasks)


def test_a_saved_world_goes_on() -> None:
    task = next(task for task in import_domain("mock")[0] if len(task.data["actions"]) == 1)
    kind = family("tau2")
    world = kind.open(task, seed=0)
    for move in iter([kind.gold(task).move(())]):
        for call in move.calls:
            world.call(call)
    saved, final = world.save(), world.final("Done.")
    world.close()
    restored = kind.restore(task, saved)
    assert restored.final("Done.") == final
    restored.close()

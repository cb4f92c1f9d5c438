"""The public package verifiers beside us: it runs exported tasks and gives our scores, and its tasksets are played here."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from ninefold.agent.env import family
from ninefold.agent.env.play import play, runtime_for
from ninefold.agent.env.script import Recorder, answers, plays
from ninefold.agent.env.verifiers.family import PATH, PYTHON, guest
from ninefold.agent.env.verify import FreshVerifier
from ninefold.agent.harness.presets import preset
from ninefold.chat.spelled import Spelled
from ninefold.core.protocols import Message, Move, offered
from ninefold.core.types import Call, Slot, Task
from ninefold.data.tasks.verifiers.export import export_package
from ninefold.data.tasks.verifiers.load import import_taskset
from ninefold.engine.scripted import ScriptedEngine
from ninefold.rollout.play import play as roll
from ninefold.rollout.scene import Scene
from tests.data.tasks.answering import answering

ROOT = Path(__file__).parents[3]
REFEREE = Path(os.environ.get(PYTHON, ROOT / "runs" / "referees" / "verifiers-env" / "bin" / "python"))
FAMILIES = ("arithmetic", "picture", "assistant", "repair")

pytestmark = [
    pytest.mark.referee,
    pytest.mark.skipif(not REFEREE.is_file(), reason="`make referees` installs verifiers where there is a Python ≥ 3.12"),
]


@pytest.fixture(autouse=True)
def _places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PYTHON, str(REFEREE))
    monkeypatch.setenv(PATH, str(Path(__file__).with_name("tasksets")))


def scripts_of(name: str, harness: str) -> tuple[list[Task], dict[str, list[Message]], dict[str, float]]:
    """(at most two tasks of different instructions, what is said on them: gold on the first; our scores by id)."""
    kind, told = family(name), dict[str, Task]()
    for seed in range(20):
        task = kind.generate("heldout", 0, seed)
        told.setdefault(task.instruction, task)
    tasks, scripts, scores = list(told.values())[:2], dict[str, list[Message]](), dict[str, float]()
    with runtime_for(kind) as runtime:
        for task in tasks:
            policy = Recorder(kind.gold(task) if task is tasks[0] else answers("I do not know."))
            scores[task.id] = play(kind, task, policy, task.seed, runtime)[0].score
            scripts[task.instruction] = [preset(harness).to_wire(move, offered(kind, task)) for move in policy.moves]
    return tasks, scripts, scores


def test_verifiers_gives_exported_tasks_the_scores_that_we_give(tmp_path: Path) -> None:
    """Its own evaluation of our packages, under our harness, with a model that plays by script."""
    scripts: dict[str, list[Message]] = {}
    ours: dict[str, float] = {}
    for name in FAMILIES:
        tasks, said, scores = scripts_of(name, "plain")
        export_package(tasks, tmp_path / name)
        scripts |= said
        ours |= scores
    places = [str(ROOT), *(str(tmp_path / name) for name in FAMILIES)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places), "NINEFOLD_TEST_KEY": "none"}
    with answering(scripts) as url:
        names = [f"ninefold_{name}" for name in FAMILIES]
        argv = [str(REFEREE), str(Path(__file__).with_name("verifiers_driver.py")), url, str(tmp_path / "out"), *names]
        ended = subprocess.run(argv, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=1800)
    theirs: dict[str, float] = {}
    for path in tmp_path.glob("out/*/traces.jsonl"):
        for line in path.read_text().splitlines():
            for trace in json.loads(line)["traces"]:
                assert trace["errors"] == [], ended.stdout + ended.stderr
                assert [node.get("parent") for node in trace["nodes"]] == [None, *range(len(trace["nodes"]) - 1)], "one branch"
                theirs[trace["task"]["data"]["id"]] = trace["rewards"]["verdict"]["score"]
    assert theirs == ours, ended.stdout + ended.stderr
    assert sorted(ours.values())[-len(FAMILIES) :] == [1.0] * len(FAMILIES)
    assert min(ours.values()) == 0.0


def test_a_taskset_is_played_and_scored_here() -> None:
    """Tools at its servers, the state that they share kept over a save, rewards as verifiers weighs them."""
    task = import_taskset("parcels", {"count": 3})[1]
    kind = family("verifiers")
    weigh = Move(calls=(Call(tool="scales_weigh", arguments={"parcel": 1}),))
    with FreshVerifier(seconds=600) as verify:

        def judged(*made: Move) -> tuple[str, float]:
            _, final = play(kind, task, plays(*made))
            result = verify(task, final)
            return result.status, result.score

        assert judged(weigh, Move(response="10 g")) == ("pass", 1.0)
        assert judged(Move(response="10 g")) == ("fail", 0.75)
        assert judged(weigh, Move(response="11 g")) == ("fail", 0.25)
        assert judged(Move(response="")) == ("fail", 0.0)
    world = kind.open(task, seed=0)
    world.call(weigh.calls[0])
    saved = world.save()
    world.close()
    restored = kind.restore(task, saved)
    assert json.loads(restored.final("10 g")["state"])["weighed"] == [1]
    restored.close()


def test_the_agent_loop_plays_a_taskset() -> None:
    """Under a public harness, with its conventions for tools that it has no view of."""
    task = import_taskset("parcels", {"count": 3})[2]
    kind, harness, chat = family("verifiers"), preset("kimi_code"), Spelled()
    said = iter([Move(calls=(Call(tool="scales_weigh", arguments={"parcel": 2}),)), Move(response="17 g")])
    engine = ScriptedEngine(lambda request: chat.completion(harness.to_wire(next(said), offered(kind, task))))
    scene = Scene(families={"verifiers": kind}, harness=lambda slot: harness, chat=chat, verify=kind.verify)
    slot = Slot(task=task, effort="high", group="g", index=0, seed=1)
    (trajectory,) = roll([slot], engine=engine, scene=scene)
    assert (trajectory.result.status, len(trajectory.turns)) == ("pass", 2)
    assert trajectory.turns[0].observations == ("17 g",)


def test_what_cannot_be_had_is_told() -> None:
    with pytest.raises(Exception, match="nothing_like_this"):
        guest().ask("tasks", taskset="nothing_like_this", options={}, most=1)

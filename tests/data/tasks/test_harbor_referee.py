"""The public harbor package beside us: it runs exported tasks in our sandbox, and reads our trajectories."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ninefold.agent.env import family
from ninefold.agent.harness.presets import PRESETS
from ninefold.chat.tokenizer import Tokenizer
from ninefold.chat.xtml import Xtml, wire_phrases
from ninefold.core.errors import SandboxUnavailable
from ninefold.core.protocols import SandboxRuntime, Style
from ninefold.core.types import Slot, Trajectory
from ninefold.data.tasks.harbor.export import export_task
from ninefold.rollout.atif import to_atif
from ninefold.rollout.demonstrate import demonstrate
from ninefold.rollout.scene import Scene
from ninefold.sandbox.runtime import open_runtime
from tests.agent.harness.test_delegation import Divided

ROOT = Path(__file__).parents[3]
REFEREE = ROOT / "runs" / "referees" / "harbor-env" / "bin"
FAMILIES = ("arithmetic", "picture", "assistant", "expression", "repair")

pytestmark = [
    pytest.mark.referee,
    pytest.mark.skipif(not REFEREE.is_dir(), reason="`make referees` installs harbor where there is a Python of 3.12 or newer"),
]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture(scope="module")
def runtime() -> Iterator[SandboxRuntime]:
    runtime = open_runtime("namespace")
    try:
        runtime.check()
    except SandboxUnavailable as error:
        pytest.skip(f"this machine cannot isolate: {error}")
    yield runtime
    runtime.close()


@pytest.fixture(scope="module")
def tasks(runtime: SandboxRuntime, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    for name in FAMILIES:
        export_task(family(name).generate("heldout", 0, 2), folder / name, runtime=runtime)
    return folder


@pytest.mark.parametrize(("agent", "reward"), [("oracle", 1.0), ("nop", 0.0)])
def test_harbor_runs_exported_tasks_in_our_sandbox(agent: str, reward: float, tasks: Path, tmp_path: Path) -> None:
    place = "ninefold.data.tasks.harbor.environment:NamespaceEnvironment"
    argv = [REFEREE / "harbor", "run", "-p", tasks, "-a", agent, "--env", place, "-o", tmp_path, "-n", "1", "--yes"]
    ended = subprocess.run(argv, env=ENVIRONMENT, capture_output=True, text=True, timeout=900)
    results = [json.loads(path.read_text()) for path in tmp_path.glob("*/*/result.json")]
    assert len(results) == len(FAMILIES), ended.stdout + ended.stderr
    assert [r["exception_info"] for r in results] == [None] * len(FAMILIES)
    assert [r["verifier_result"]["rewards"] for r in results] == [{"reward": reward}] * len(FAMILIES)


def test_harbor_reads_our_trajectories(tmp_path: Path, runtime: SandboxRuntime) -> None:
    """Its own models of ATIF refuse unknown fields and wrong places."""
    names = ("arithmetic", "assistant", "picture")
    kinds = {name: family(name) for name in names}
    fixed = [*wire_phrases(), *(p for h in PRESETS for p in h.phrases(kinds["assistant"].tools))]
    chat = Xtml(Tokenizer.train(["hello low lower"] * 4, fixed, 700))
    scene = Scene(chat=chat, families=kinds, verify=lambda task, final: kinds[task.family].verify(task, final))
    slots = [
        Slot(task=kinds[name].generate("train", 0, n), effort="max", group=f"{name}{n}", index=0, seed=n)
        for name in names
        for n in range(4)
    ]
    made = demonstrate(slots, lambda slot: kinds[slot.task.family].demonstrate(slot.task, Style(effort="max", seed=1)), scene)
    made.append(divided(chat, runtime))
    for number, trajectory in enumerate(made):
        (tmp_path / f"{number}.json").write_text(json.dumps(to_atif(trajectory)))
    program = (
        "import sys; from pathlib import Path; from harbor.models.trajectories import Trajectory\n"
        "for path in Path(sys.argv[1]).iterdir(): Trajectory.model_validate_json(path.read_text())"
    )
    ended = subprocess.run(
        [REFEREE / "python", "-c", program, tmp_path], env=ENVIRONMENT, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr


def divided(chat: Xtml, runtime: SandboxRuntime) -> Trajectory:
    """A trajectory with a sub-agent's in it."""
    family = Divided()
    slot = Slot(task=family.task(), effort="max", group="divided", index=0, seed=0)
    scene = Scene(chat=chat, families={"errand": family}, verify=family.verify, runtime=runtime)
    (trajectory,) = demonstrate([slot], lambda slot: family.gold(slot.task), scene)
    assert trajectory.agents
    return trajectory

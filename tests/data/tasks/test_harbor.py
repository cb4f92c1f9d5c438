"""Harbor directories out and in: round trips, what is refused, and verification in a fork when the agent is dead."""

from __future__ import annotations

import json
import shlex
import sysconfig
import tomllib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from ninefold.agent.env import family
from ninefold.agent.env.play import play
from ninefold.agent.env.script import answers
from ninefold.agent.env.verify import FreshVerifier
from ninefold.core.errors import SandboxUnavailable, UserError
from ninefold.core.protocols import ExecLimits, SandboxRuntime
from ninefold.core.records import task_of, task_record
from ninefold.core.types import Result, Task
from ninefold.data.tasks.harbor.export import directory, export_task
from ninefold.data.tasks.harbor.layout import WORLD
from ninefold.data.tasks.harbor.load import import_task
from ninefold.data.tasks.harbor.served import ServedWorld, door
from ninefold.sandbox.archive import Entry, pack
from ninefold.sandbox.namespace import NamespaceConfig, NamespaceRuntime
from ninefold.sandbox.runtime import open_runtime
from ninefold.sandbox.zygote.root import PACKAGES


@pytest.fixture(scope="module")
def runtime() -> Iterator[SandboxRuntime]:
    runtime = open_runtime("namespace")
    try:
        runtime.check()
    except SandboxUnavailable as error:
        pytest.skip(f"this machine cannot isolate: {error}")
    yield runtime
    runtime.close()


FOREIGN = {
    "task.toml": """schema_version = "1.4"\n[task]\nname = "someone/count"\n[verifier]\ntimeout_sec = 5.0\n""",
    "instruction.md": "Write the number of lines of data.txt into count.txt.\n",
    "environment/Dockerfile": "FROM debian\nENV GREETING=hello\nWORKDIR /app\nCOPY data.txt \\\n  ./\nRUN mkdir -p /app\n",
    "environment/data.txt": "a\nb\nc\n",
    "tests/test.sh": '#!/bin/bash\nif [ "$(cat /app/count.txt)" = "$(cat /tests/expected)" ]; then echo 1; else echo 0; fi'
    " > /logs/verifier/reward.txt\n",
    "tests/expected": "3\n",
    "solution/solve.sh": "#!/bin/bash\ntest $GREETING = hello && wc -l < data.txt > count.txt\n",
}


def written(folder: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


@pytest.fixture
def foreign(tmp_path: Path) -> Task:
    return import_task(written(tmp_path / "count", FOREIGN))


@pytest.mark.parametrize("name", ["arithmetic", "picture", "assistant", "repair"])
def test_an_exported_task_comes_back_as_it_was(name: str, runtime: SandboxRuntime, tmp_path: Path) -> None:
    task = family(name).generate("dev", 0, 11)
    export_task(task, tmp_path / "task", runtime=runtime)
    assert import_task(tmp_path / "task") == task_of(json.loads(json.dumps(task_record(task))))
    config = tomllib.loads((tmp_path / "task" / "task.toml").read_text())
    assert config["schema_version"] == "1.4"
    assert config["environment"]["network_mode"] == config["verifier"]["network_mode"] == "no-network"


@pytest.fixture(scope="module")
def container() -> Iterator[NamespaceRuntime]:
    """Sandboxes that show the packages of this interpreter, as `NamespaceEnvironment` makes them."""
    runtime = NamespaceRuntime(NamespaceConfig(packages=sysconfig.get_paths()["purelib"]))
    try:
        runtime.check()
    except SandboxUnavailable as error:
        pytest.skip(f"this machine cannot isolate: {error}")
    yield runtime
    runtime.close()


def graded(files: dict[str, str | bytes], container: NamespaceRuntime, *commands: str) -> tuple[str | None, str]:
    """(reward, what else lies in /tests) when the commands were run in /app, and tests/test.sh after them."""
    places = {"environment/files/": "app/", "solution/": "solution/", "tests/": "tests/"}
    places_of_its_own = [Entry(path=path, kind="folder", mode=0o755) for path in ("app", "logs/verifier", "tests")]
    with closing(container.restore(pack([*door(), *places_of_its_own]))) as box:
        world = str(files.get(f"environment/{WORLD}", ""))
        served = ServedWorld(task_of(json.loads(world)), box, container) if world else None
        for source, target in places.items():
            if source == "tests/":
                for command in commands:
                    assert box.run(["bash", "-c", f"cd /app && {command}"], limits=LIMITS).exit_code == 0
                if served is not None:
                    box.write("tests/calls.json", json.dumps(served.close()).encode())
            for path, content in files.items():
                if path.startswith(source):
                    data = content if isinstance(content, bytes) else content.encode()
                    box.write(path.replace(source, target, 1), data)
        box.run(["bash", "-c", f"export PYTHONPATH={PACKAGES}; bash /tests/test.sh"], limits=LIMITS)
        try:
            reward = box.read("logs/verifier/reward.txt").decode()
        except FileNotFoundError:
            reward = None
        return reward, box.run(["ls", "/tests"]).stdout


LIMITS = ExecLimits(seconds=60, memory_mb=1024, processes=64)


@pytest.mark.parametrize("name", ["arithmetic", "repair"])
def test_the_directory_holds_all_that_its_verifier_needs(
    name: str, runtime: SandboxRuntime, container: NamespaceRuntime
) -> None:
    """Gold 1, nothing 0, and no reward at all where nobody can tell; the answers are gone once judging has begun."""
    files = directory(family(name).generate("train", 0, 5), runtime=runtime)
    assert graded(files, container, "bash /solution/solve.sh") == ("1.0\n", "ninefold\ntest.sh\n")
    assert graded(files, container)[0] == "0.0\n"
    broken = json.dumps({**json.loads(files["tests/task.json"]), "data": {}})
    assert graded(files | {"tests/task.json": broken}, container, "echo x | tee answer.txt *.py")[0] is None


def test_tools_answer_and_the_calls_that_were_made_count(runtime: SandboxRuntime, container: NamespaceRuntime) -> None:
    """The verifier plays them again; whatever the agent writes there itself is written over."""
    kind = family("assistant")
    for seed in range(100):
        files = directory(kind.generate("train", 1, seed), runtime=runtime)
        if "/app/tool" in str(files["solution/solve.sh"]):
            break
    assert graded(files, container, "bash /solution/solve.sh")[0] == "1.0\n"
    trouble = "echo junk > /work/.world/ask; echo '{}' > /work/.world/ask; sleep .1; echo [] > /tests/calls.json"
    refused = """test "$(/app/tool nothing)" = 'error: no such tool'"""
    unknown = "error: bad arguments: name is not a parameter; there are key (string)"
    named = f"""test "$(/app/tool lookup name=x)" = '{unknown}'"""
    played = [trouble, refused, named, "bash /solution/solve.sh", "echo [] > /tests/calls.json"]
    assert graded(files, container, *played)[0] == "1.0\n"
    assert graded(files, container, "/app/tool lookup key=x || true")[0] == "0.0\n"


@pytest.mark.parametrize(
    "hack",
    [
        "import os\nos.system('sleep 9 &')\nfor p in ('/tests/task.json',): print(open(p).read())",
        "import os\np = os.getppid()\nprint(open(f'/proc/{p}/mem', 'rb').read(1))",
        "import os\nopen('/logs/verifier/reward.txt', 'w').write('1')\nos._exit(0)",
        "import os\nos.system('(sleep .5; echo 1 > /logs/verifier/reward.txt) &')\nos._exit(0)",
        "while True: pass",
    ],
    ids=["reads the record", "reads the verifier's memory", "writes the reward", "leaves a writer", "never ends"],
)
def test_a_candidate_run_by_the_exported_verifier_gains_nothing(
    hack: str, runtime: SandboxRuntime, container: NamespaceRuntime
) -> None:
    task = family("repair").generate("train", 0, 5)
    path = next(iter(task.data["right"]))
    files = directory(task, runtime=runtime)
    assert graded(files, container, f"printf %s {shlex.quote(hack)} > {path}")[0] == "0.0\n"


@pytest.mark.parametrize("name", ["arithmetic", "picture", "assistant", "repair"])
def test_no_answer_lies_where_the_agent_works(name: str, runtime: SandboxRuntime) -> None:
    """All that goes into the image is what the task shows."""
    task = family(name).generate("train", 0, 1)
    files = directory(task, runtime=runtime)
    shown = {path.removeprefix("environment/files/") for path in files if path.startswith("environment/files/")}
    assert shown == {".keep", *task.files, *(f"picture-{n}.png" for n, _ in enumerate(task.pictures, 1))}
    assert "COPY files/ /app/" in str(files["environment/Dockerfile"])


def test_a_foreign_task_is_played_and_judged(foreign: Task, runtime: SandboxRuntime) -> None:
    harbor = family("harbor")
    result, final = play(harbor, foreign, harbor.gold(foreign), runtime=runtime)
    assert result.status == "pass"
    assert play(harbor, foreign, answers(""), runtime=runtime)[0] == Result(status="fail", detail=_SAID)
    with FreshVerifier() as verify:
        assert verify(foreign, final).status == "pass", "a judge with a runtime of its own says the same"


_SAID = "cat: /app/count.txt: No such file or directory"


@pytest.mark.parametrize("hack", list(family("harbor").hacks(replace(family("arithmetic").generate("train", 0, 0)))))
def test_hacks_of_a_foreign_task_gain_nothing(hack: str, foreign: Task, runtime: SandboxRuntime) -> None:
    result, _ = play(family("harbor"), foreign, family("harbor").hacks(foreign)[hack], runtime=runtime)
    assert (result.status, result.score) == ("fail", 0.0)


@pytest.mark.parametrize(
    ("reward", "status"),
    [
        ("nan", "invalid"),
        ("inf", "invalid"),
        ("2", "invalid"),
        ("-0.1", "invalid"),
        ("yes", "invalid"),
        ("0.5", "fail"),
        ("1", "pass"),
    ],
)
def test_a_reward_is_a_finite_number_in_its_range(reward: str, status: str, tmp_path: Path, runtime: SandboxRuntime) -> None:
    test = f"#!/bin/bash\necho {reward} > /logs/verifier/reward.txt\n"
    task = import_task(written(tmp_path / "t", FOREIGN | {"tests/test.sh": test}))
    assert play(family("harbor"), task, answers(""), runtime=runtime)[0].status == status


def test_tests_that_hang_or_say_nothing_are_invalid(tmp_path: Path, runtime: SandboxRuntime) -> None:
    for n, test in enumerate(("sleep 60", "true")):
        toml = '[task]\nname = "a/b"\n[verifier]\ntimeout_sec = 0.5\n'
        task = import_task(written(tmp_path / str(n), FOREIGN | {"task.toml": toml, "tests/test.sh": test}))
        assert play(family("harbor"), task, answers(""), runtime=runtime)[0].status == "invalid"


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        (
            "environment/Dockerfile",
            "FROM x\nRUN apt-get install -y gcc\n",
            "line 2: `apt-get install -y gcc` needs a container",
        ),
        ("environment/Dockerfile", "FROM x\nRUN pip install nothing-like-this\n", "nothing-like-this is not installed"),
        ("environment/Dockerfile", "FROM x\nWORKDIR /srv\n", "/srv is outside of"),
        ("environment/Dockerfile", "FROM x\nCOPY ../../secret /app/\n", "there is no ../../secret"),
        ("environment/Dockerfile", 'FROM x\nENV A="b\n', "line 2: a quote is not closed"),
        ("task.toml", '[environment]\nnetwork_mode = "public"\ngpus = 1\n', "a network, GPUs"),
        ("task.toml", 'schema_version = "2.0"\n', "schema 2.0"),
        ("task.toml", "schema_version = \n", "no TOML"),
    ],
)
def test_what_cannot_be_had_is_refused_with_its_place(path: str, text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=told.replace("(", "\\(")):
        import_task(written(tmp_path, FOREIGN | {path: text}))

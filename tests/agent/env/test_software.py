"""Software: every change shows in public and hidden calls, history holds nothing, and tests cannot be bent."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from random import Random

import pytest

from ninefold.agent.env.play import play
from ninefold.agent.env.script import plays, use
from ninefold.agent.env.software import Software, grade
from ninefold.agent.env.software.draws import DRAWS
from ninefold.agent.env.software.history import blob_name, leaks, orphan
from ninefold.agent.env.software.issue import Issue, calls
from ninefold.agent.env.software.repository import draw
from ninefold.agent.env.software.sources import RAISED, Case, Sources
from ninefold.core.protocols import Move
from ninefold.core.types import Call, Task

FAMILY = Software()
LEVELS = range(FAMILY.levels)


def _shell(world, command: str) -> str:
    return world.call(Call(tool="shell", arguments={"command": command})).text


def test_right_sources_never_raise_and_loop_only_over_what_is_there() -> None:
    repository = draw(Random(0), 4)
    right = Sources(repository.sources)
    assert len(repository.draws) == sum(map(len, DRAWS.values()))
    for name in repository.draws:
        outcomes = [right.outcome(case) for case in calls(repository, name, Random(1), 30)]
        assert not [outcome for outcome in outcomes if outcome.startswith(RAISED)], name
        assert len(set(outcomes)) > 1, name
    loops = [node for text in repository.sources.values() for node in ast.walk(ast.parse(text)) if isinstance(node, ast.While)]
    assert not loops


def test_every_function_of_the_trees_is_called() -> None:
    repository = draw(Random(0), 4)
    written = {
        f"{path.removesuffix('.py').replace('/', '.')}.{node.name}"
        for path, text in repository.sources.items()
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
    }
    assert written == set(repository.draws)


@pytest.mark.parametrize("level", LEVELS)
def test_each_change_shows_by_itself(level: int) -> None:
    for seed in range(3):
        issue = Issue.draw(Random(seed), level)
        right, public = Sources(issue.repository.sources), issue.calls()
        for change in issue.changes:
            wrong = Sources({**issue.repository.sources, change.path: change.text})
            shown = [case for cases in public.values() for case in cases if wrong.outcome(case) != right.outcome(case)]
            assert shown, change.path
        assert len({change.path for change in issue.changes}) == len(issue.changes) == (3 if level == 4 else 1)


@pytest.mark.parametrize("level", [0, 1, 4])
def test_public_tests_fail_until_the_issue_is_settled(isolated, level: int) -> None:
    task = FAMILY.generate("train", level, 5)
    command = "python3 -m tests" if level else "python3 test_f.py"
    world = FAMILY.open(task, seed=0, runtime=isolated)
    assert set(_shell(world, command).split()) - {"passed", "OK"}
    for path, text in task.data["right"].items():
        assert world.call(Call(tool="write", arguments={"path": path, "text": text})).text == f"Updated {path}"
    assert set(_shell(world, command).split()) <= {"passed", "OK"}
    assert FAMILY.verify(task, world.final(None), runtime=isolated).status == "pass"
    world.close()


def test_git_sees_one_clean_commit_and_nothing_else(isolated) -> None:
    task = FAMILY.generate("train", 2, 0)
    world = FAMILY.open(task, seed=0, runtime=isolated)
    if _shell(world, "git --version").startswith("git version"):
        assert _shell(world, "git fsck --full --strict && git status --short && git rev-list --all --count").strip() == "1"
        assert _shell(world, "git reflog --all; git stash list; git remote; git tag; git fsck --lost-found") == ""
        assert _shell(world, "git ls-files").split() == sorted(task.files)
        (path, text), *_ = task.data["right"].items()
        assert "fatal" in _shell(world, f"git cat-file -p {blob_name(text)}")
        _shell(world, f"echo >> {path}")
        assert _shell(world, "git status --short").strip() == f"M {path}"
    world.close()


def test_what_a_history_could_hold_is_found(isolated) -> None:
    base, gold = {"a.py": "x = 1\n", "b/c.py": "y = 1\n"}, {"a.py": "x = 2\n"}
    assert leaks(orphan(base, "base"), gold) == []
    assert orphan(base, "base") == orphan(dict(reversed(base.items())), "base")
    assert leaks(orphan({**base, **gold}, "gold"), gold) == ["a.py"]
    sandbox = isolated.create(base)
    who = "git -c user.name=n -c user.email=e"
    ended = sandbox.run(
        ["sh", "-c", f"git init -q && git add -A && {who} commit -qm 1 && echo 'x = 2' > a.py && {who} commit -qam 2"]
    )
    if ended.exit_code == 0:
        listed = sandbox.run(["sh", "-c", "cd .git && find . -type f"]).stdout.split()
        git = {path[2:]: sandbox.read(f".git/{path[2:]}") for path in listed}
        found = leaks(git, gold)
        assert "a.py" in found
        assert len([path for path in found if path.startswith("objects/")]) == 1
        assert [path for path in found if path.startswith("logs/")]
    sandbox.close()


def test_calls_of_two_repositories_do_not_meet() -> None:
    one, two = Sources({"m.py": "def f(): return [1]\n"}), Sources({"m.py": "def f(): raise KeyError\n"})
    case = Case("m", "f", [])
    assert [one.outcome(case), two.outcome(case), one.outcome(case)] == ["[1]", '["raised", "KeyError"]', "[1]"]


def _with(task: Task, **texts: str) -> dict[str, str]:
    return {**task.files, **task.data["right"], **texts}


def test_only_the_package_is_looked_at(isolated) -> None:
    task = FAMILY.generate("train", 1, 1)
    planted = {
        "conftest.py": "raise SystemExit",
        "sitecustomize.py": "raise SystemExit",
        "unittest.py": "raise SystemExit",
        **dict.fromkeys(task.data["suite"], "raise SystemExit"),
    }
    files = {**_with(task), **planted, f"{task.data['package']}/more.py": "x = 1\n"}
    assert FAMILY.verify(task, {"files": files}, runtime=isolated).status == "pass"
    assert FAMILY.verify(task, {"files": planted}, runtime=isolated).status == "fail"
    assert FAMILY.verify(task, {"files": _with(task)}).status == "invalid"
    assert FAMILY.verify(task, {"files": dict(task.files)}).status == "fail"
    assert FAMILY.verify(task, {"files": None}).status == "fail"


def test_tests_that_are_not_in_the_manifest_are_not_counted(isolated) -> None:
    task = FAMILY.generate("train", 1, 1)
    files, ids = _with(task), task.data["ids"]
    assert grade.failing(isolated, files, ids) == []
    assert grade.failing(isolated, {**task.files}, ids)
    assert grade.failing(isolated, files, [*ids, f"{ids[0]}0"]) == [f"{ids[0]}0"]
    skipped = {path: text.replace("def test_", "@unittest.skip('')\n    def test_") for path, text in files.items()}
    assert grade.failing(isolated, skipped, ids) == ids
    init = f"{task.data['package']}/__init__.py"
    forged = "import sys\nprint(sys._getframe(), flush=True)\nimport os\nos._exit(0)\n"
    assert grade.failing(isolated, {**files, init: forged}, ids) is None


def test_a_call_that_never_ends_fails(isolated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grade, "LIMITS", replace(grade.LIMITS, seconds=1.0))
    task = FAMILY.generate("train", 0, 0)
    moves = plays(use("write", path="f.py", text="def f(x,y):\n    while True: pass\n"), Move(response="done"))
    result, _ = play(FAMILY, task, moves, 0, isolated)
    assert (result.status, result.score) == ("fail", 0.0)


def test_hidden_calls_are_not_the_public_ones() -> None:
    for level in LEVELS:
        task = FAMILY.generate("dev", level, 2)
        assert json.loads(json.dumps(task.data)) == task.data
        assert all(task.data["shown"][name] for name in task.data["functions"])
        for text in task.data["right"].values():
            assert text not in task.files.values()

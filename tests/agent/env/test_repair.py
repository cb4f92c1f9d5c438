"""Repair: bugs show, tests cannot be bent, and only the files to be mended are judged."""

from __future__ import annotations

import pytest

from ninefold.agent.env.play import play
from ninefold.agent.env.repair import Repair
from ninefold.agent.env.repair.programs import LEVELS
from ninefold.agent.env.script import Script, use
from ninefold.core.errors import SandboxUnavailable
from ninefold.core.protocols import Move
from ninefold.core.types import Call, Task

FAMILY = Repair()


def test_every_bug_has_one_place():
    for program in (program for level in LEVELS for program in level):
        for right, wrong in program.bugs:
            assert sum(source.count(right) for source in program.files.values()) == 1, (program.function, right)
            assert right != wrong


@pytest.mark.parametrize("level", range(FAMILY.levels))
def test_the_public_test_fails_until_the_bug_is_mended(isolated, level):
    for seed in range(8):
        task = FAMILY.generate("train", level, seed)
        world = FAMILY.open(task, seed=0, runtime=isolated)
        seen = [_call(world, "run_tests")]
        for path, text in task.data["right"].items():
            assert _call(world, "read", path=path) == task.files[path]
            assert _call(world, "write", path=path, text=text) == "written"
        seen.append(_call(world, "run_tests"))
        assert seen[0] != "passed"
        assert seen[1] == "passed"
        assert FAMILY.verify(task, world.final(None), runtime=isolated).status == "pass"
        world.close()


def _call(world, tool: str, **arguments: str) -> str:
    return world.call(Call(tool=tool, arguments=arguments)).text


def test_hidden_calls_are_not_the_public_ones():
    for level in range(FAMILY.levels):
        for seed in range(20):
            task = FAMILY.generate("dev", level, seed)
            shown = [call for call, _ in task.data["shown"]]
            assert not [call for call, _ in task.data["hidden"] if call in shown]
            assert task.files.keys() == task.data["right"].keys() | {task.data["test"]}
            assert any(task.files[path] != text for path, text in task.data["right"].items())


def _episode(task: Task, **files: str):
    """Writes files (dots spelled _dot_) and runs the public test, which runs them."""

    def steps():
        for name, text in files.items():
            yield use("write", path=name.replace("_dot_", "."), text=text)
        yield use("run_tests")
        yield Move(response="done")

    return Script(steps())


LINK = "import os\nos.remove('f.py')\nos.symlink({target!r}, 'f.py')\nprint('passed')\n"


@pytest.mark.parametrize("target", ["/etc/passwd", "/proc/self/environ", "f.py", "/dev/zero", "."])
def test_links_and_devices_in_place_of_a_file_are_no_repair(isolated, target):
    task = FAMILY.generate("train", 0, 0)
    result, final = play(FAMILY, task, _episode(task, test_f_dot_py=LINK.format(target=target)), 0, isolated)
    assert (result.status, result.score) == ("fail", 0.0), final
    assert "root:" not in str(final)


def test_a_directory_in_place_of_a_file_is_answered(isolated):
    task = FAMILY.generate("train", 0, 0)
    world = FAMILY.open(task, seed=0, runtime=isolated)
    _call(world, "write", path="test_f.py", text="import os\nos.remove('f.py')\nos.mkdir('f.py')\nprint('passed')\n")
    assert _call(world, "run_tests") == "passed"
    assert _call(world, "write", path="f.py", text="x").startswith("error")
    assert _call(world, "read", path="f.py").startswith("error")
    assert FAMILY.verify(task, world.final("done"), runtime=isolated).status == "fail"
    world.close()


@pytest.mark.parametrize("path", ["../f.py", "/etc/passwd", "a/b.py", "", ".", "..", "f.py\n../x", "x" * 65, "-rf"])
def test_odd_paths_are_refused(isolated, path):
    world = FAMILY.open(FAMILY.generate("train", 0, 0), seed=0, runtime=isolated)
    assert _call(world, "read", path=path).startswith("error")
    assert _call(world, "write", path=path, text="x").startswith("error")
    world.close()


def test_a_test_that_never_ends_is_cut(isolated):
    task = FAMILY.generate("train", 0, 0)
    world = FAMILY.open(task, seed=0, runtime=isolated)
    _call(world, "write", path="f.py", text="while True: pass\n")
    assert _call(world, "run_tests") == "error: timeout"
    assert FAMILY.verify(task, world.final("done"), runtime=isolated).status == "fail"
    world.close()


def test_untouched_files_are_judged_without_running_anything():
    task = FAMILY.generate("train", 1, 0)
    with pytest.raises(SandboxUnavailable):
        FAMILY.open(task, seed=0)
    assert FAMILY.verify(task, {"files": {path: task.files[path] for path in task.data["right"]}}).status == "fail"
    assert FAMILY.verify(task, {"files": dict(task.data["right"])}).status == "invalid"
    assert FAMILY.verify(task, {"files": {}}).status == "fail"


def test_a_boundary_that_the_hidden_calls_miss_is_met(isolated):
    tasks = [t for seed in range(60) if (t := FAMILY.generate("train", 1, seed)).data["function"] == "total"]
    assert len(tasks) > 3
    for task in tasks:
        mended = {path: text.replace("if x > ", "if x >= ") for path, text in task.data["right"].items()}
        assert FAMILY.verify(task, {"files": mended}, runtime=isolated).status == "fail"
        assert FAMILY.verify(task, {"files": task.data["right"]}, runtime=isolated).status == "pass"

"""Files and folders of a run: killed at any moment, the old or the whole new one is there."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from multiprocessing import get_context
from pathlib import Path

import pytest

from ninefold.core.errors import UserError
from ninefold.core.store import Run, check_ours, is_complete, read_json, recover_folder, write_atomic, write_folder, write_json

FORK = get_context("fork")


def die_at(moment: int, call: Callable[[], None]) -> None:
    """Make `call`, killed just before its `moment`-th touch of the file system."""
    seen = count()

    def hook(event: str, _: object) -> None:
        if event.startswith(("open", "os.", "shutil.")) and next(seen) == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    call()


def deaths(call: Callable[[], None]) -> int:
    """How many moments there are to be killed at, each tried in a process of its own that goes on from the last one's state."""
    for moment in count():
        process = FORK.Process(target=die_at, args=(moment, call))
        process.start()
        process.join()
        if process.exitcode == 0:
            return moment
        assert process.exitcode == -signal.SIGKILL
    raise AssertionError


def fill(text: str) -> Callable[[Path], None]:
    def into(folder: Path) -> None:
        for name in ("a", "b"):
            (folder / name).write_text(text)

    return into


def content(folder: Path) -> str:
    """What both files of a complete folder say."""
    assert is_complete(folder)
    a, b = ((folder / name).read_text() for name in "ab")
    assert a == b
    return a


@pytest.mark.parametrize("recover_first", [True, False])
def test_a_folder_is_old_or_new_whenever_its_writer_dies(tmp_path: Path, recover_first: bool) -> None:
    folder = tmp_path / "state"
    write_folder(folder, fill("old"))
    found: list[str] = []

    def replace_it() -> None:
        if recover_first:
            recover_folder(folder)
            found.append(content(folder))
        write_folder(folder, fill("new"))

    assert deaths(replace_it) > 12, "every rename, file and removal is a moment of its own"
    assert content(folder) == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["state"], "nothing half-made is left behind"


def test_every_death_leaves_something_to_recover(tmp_path: Path) -> None:
    outcomes: set[str] = set()
    for moment in count():
        folder = tmp_path / str(moment) / "state"
        write_folder(folder, fill("old"))
        process = FORK.Process(target=die_at, args=(moment, lambda f=folder: write_folder(f, fill("new"))))
        process.start()
        process.join()
        between = not folder.exists()
        recover_folder(folder)
        outcomes.add(content(folder) + (" after recovery" if between else ""))
        if process.exitcode == 0:
            break
    assert outcomes == {"old", "old after recovery", "new"}


def test_a_folder_without_its_mark_is_not_taken_up(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    (tmp_path / ".state.old").mkdir()
    recover_folder(folder)
    assert not folder.exists()
    with pytest.raises(FileNotFoundError):
        write_folder(folder, lambda fresh: (fresh / "absent").unlink())
    assert not folder.exists()


def test_a_file_is_old_or_new_whenever_its_writer_dies(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.txt"
    write_atomic(path, "old")
    for moment in count():
        process = FORK.Process(target=die_at, args=(moment, lambda: write_atomic(path, b"new" * 9999)))
        process.start()
        process.join()
        if process.exitcode == 0:
            break
        assert path.read_text() == "old"
    assert path.read_text() == "new" * 9999
    assert moment >= 2


def test_json_reads_back(tmp_path: Path) -> None:
    value = {"é": [1, 2.5, None, True], "nested": {"b": {}, "a": "text"}}
    write_json(tmp_path / "x.json", value)
    assert read_json(tmp_path / "x.json") == value


def test_what_the_machine_refuses_is_told_of_the_file_that_was_meant(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError) as refused:
        write_atomic(tmp_path / "folder", "text")
    assert refused.value.filename == str(tmp_path / "folder")

    def fill(folder: Path) -> None:
        (folder / "a").mkdir()
        (folder / "a").write_text("text")

    with pytest.raises(IsADirectoryError) as refused:
        write_folder(tmp_path / "new", fill)
    assert refused.value.filename == str(tmp_path / "new" / "a")
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError) as refused:
        write_folder(tmp_path / "file" / "new", fill)
    assert refused.value.filename == str(tmp_path / "file" / "new")
    with pytest.raises(FileNotFoundError) as refused:
        write_folder(tmp_path / "new", lambda _: (tmp_path / "elsewhere" / "x").write_text(""))  # type: ignore[arg-type, return-value]
    assert refused.value.filename == str(tmp_path / "elsewhere" / "x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def hold(run: Run, held: object, done: object) -> None:
    with run.locked():
        held.set()  # type: ignore[attr-defined]
        done.wait()  # type: ignore[attr-defined]


def test_one_writer_a_run_and_a_dead_one_holds_nothing(tmp_path: Path) -> None:
    run = Run(path=tmp_path / "run")
    held, done = FORK.Event(), FORK.Event()
    process = FORK.Process(target=hold, args=(run, held, done))
    process.start()
    held.wait()
    assert process.pid is not None
    with pytest.raises(UserError, match=f"^process {process.pid} is working on"), run.locked():
        pass
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with run.locked():
        pass


def test_a_folder_is_ours_by_its_mark_or_where_nothing_lies(tmp_path: Path) -> None:
    check_ours(tmp_path / "absent", ("mark",), "go elsewhere")
    check_ours(tmp_path, ("mark",), "go elsewhere")
    for half in (".lock", ".mark.123"):
        (tmp_path / half).touch()
    check_ours(tmp_path, ("mark",), "go elsewhere")
    for other in ("a", "b", "c", ".d"):
        (tmp_path / other).touch()
    with pytest.raises(UserError, match=r"holds other files \(.d, a, b and 1 more\); go elsewhere"):
        check_ours(tmp_path, ("mark",), "go elsewhere")
    with pytest.raises(UserError, match="a is no folder; go elsewhere"):
        check_ours(tmp_path / "a", ("mark",), "go elsewhere")
    (tmp_path / "mark").touch()
    check_ours(tmp_path, ("mark",), "go elsewhere")


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run"):
        Run.open(tmp_path)
    run = Run(path=tmp_path)
    run.log()("note", text="x")
    assert Run.open(tmp_path) == run
    assert run.stage("rl", "coding", "low") == tmp_path / "stages" / "rl" / "coding" / "low"

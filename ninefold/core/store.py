"""Files that survive a kill at any moment: atomic writes, complete-or-absent folders, one writer a run."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ninefold.core.errors import UserError
from ninefold.core.events import EventLog, end_torn_line

SCHEMA_VERSION = 1
COMPLETE = "COMPLETE"
LOCK = ".lock"
"""In a folder with one writer: the file that this one holds."""


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write `data` so that a reader sees the old file or the whole new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _beside(path) as temporary:
        with temporary.open("wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """Where a file or folder is written before it is put at `path`. What the machine refuses is told of `path`, and leaves
    nothing there."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield temporary
    except OSError as error:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        elif temporary.exists():
            temporary.unlink()
        place = str(temporary if error.filename is None else error.filename)
        if error.errno is None or not place.startswith(str(temporary)):
            raise
        raise OSError(error.errno, error.strerror, place.replace(str(temporary), str(path), 1)) from None


def write_json(path: Path, value: Any) -> None:
    write_atomic(path, json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


def read_json(path: Path) -> Any:
    """Raises UserError where the file is damaged."""
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise UserError(f"{path} is damaged, it is no JSON: {error}") from None


def hold(path: Path, what: str) -> IO[str]:
    """The file at `path`, locked until it is closed or this process ends, with this process's number in it.

    Raises UserError where another process holds it: that process, then `what` it does and how to mend that.
    """
    file = path.open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        number = file.read(20).strip()
        file.close()
        raise UserError(f"{f'process {number}' if number.isdecimal() else 'another process'} {what}") from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def check_ours(folder: Path, marks: Sequence[str], mend: str) -> None:
    """Raise UserError, with how to `mend` it, where `folder` holds something, but none of the files that mark it as ours."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder; {mend}")
    if any((folder / mark).exists() for mark in marks):
        return
    half = (LOCK, *(f".{mark.partition('/')[0]}." for mark in marks))  # what a kill may leave before there is a mark
    others = sorted(path.name for path in folder.iterdir() if not path.name.startswith(half))
    if others:
        told = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
        raise UserError(f"{folder} holds other files ({told}); {mend}")


def is_complete(folder: Path) -> bool:
    return (folder / COMPLETE).exists()


def write_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Let `fill` write into a fresh folder, mark it COMPLETE, then put it in place of `folder`.

    Killed at any moment, it leaves the old folder or the new one, for `recover_folder` to find, and perhaps half a fresh one,
    which the next call removes: a folder has one writer at a time.
    """
    recover_folder(folder)
    for half in folder.parent.glob(f".{folder.name}.[0-9]*"):
        shutil.rmtree(half)
    old = folder.with_name(f".{folder.name}.old")
    with _beside(folder) as temporary:
        temporary.mkdir(parents=True)
        fill(temporary)
        write_json(temporary / COMPLETE, {"schema": SCHEMA_VERSION})
        shutil.rmtree(old, ignore_errors=True)
        if folder.exists():
            folder.rename(old)
        temporary.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def replacing(folder: Path) -> Iterator[None]:
    """Let the block make `folder` anew; what stood there comes back unless the block ends well and the folder is complete."""
    recover_folder(folder)
    old = folder.with_name(f".{folder.name}.old")
    if is_complete(folder):
        folder.rename(old)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    try:
        yield
    finally:
        recover_folder(folder)
    shutil.rmtree(old, ignore_errors=True)


def recover_folder(folder: Path) -> None:
    """Undo a `write_folder` that was killed between its two renames, or a `replacing` that did not come to its end."""
    old = folder.with_name(f".{folder.name}.old")
    if is_complete(old) and not is_complete(folder):
        shutil.rmtree(folder, ignore_errors=True)
        old.rename(folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run's folder: config.toml, events.jsonl, stages/, trajectories/, report.html."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def config(self) -> Path:
        return self.path / "config.toml"

    @property
    def controls(self) -> Path:
        """JSON of the values changed while the run goes on (`ninefold set`)."""
        return self.path / "controls.json"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    def stage(self, *names: str) -> Path:
        """Folder of one stage, e.g. stage("rl", "coding", "low")."""
        return self.path.joinpath("stages", *names)

    def log(self, **context: Any) -> EventLog:
        return EventLog(self.events, **context)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run for writing; the lock goes with the process, however it ends."""
        self.path.mkdir(parents=True, exist_ok=True)
        with hold(self.path / LOCK, f"is working on {self.path}; wait for it or give this run another name"):
            end_torn_line(self.events)
            yield

    @staticmethod
    def open(path: Path) -> Run:
        """The run at `path`, which must exist."""
        run = Run(path=path)
        if not run.events.exists() and not run.config.exists():
            raise UserError(f"{path} is not a run: it has neither config.toml nor events.jsonl (see `ninefold runs ls`)")
        return run

"""Runs by name: finding, listing, removing them."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from ninefold.core.errors import UserError
from ninefold.core.store import COMPLETE, Run, check_ours, is_complete

NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}")
FOLDER = Path("runs")
"""Where runs lie, within the working directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One run in a listing."""

    run: Run
    changed: float
    """When its event log grew last, in seconds since the epoch."""
    megabytes: float
    stages: tuple[str, ...]
    """Complete ones, in the order in which they were completed."""


def open_run(name: str) -> Run:
    """The run at the path `name`, or of that name in `runs/`."""
    path = Path(name)
    return Run.open(path if path.exists() or len(path.parts) > 1 else FOLDER / name)


def new_run(name: str) -> Run:
    """The run's folder, which need not exist. Raises UserError for a name that is none, and where other files lie there."""
    path = Path(name)
    if not NAME.fullmatch(path.name):
        raise UserError(
            f"{name!r} is no name for a run: use letters, digits, '.', '_' and '-', and begin with none of the three"
        )
    run = Run(path=path if len(path.parts) > 1 else FOLDER / name)
    check_ours(run.path, (run.config.name, run.events.name), "give the run a --name of its own")
    return run


def list_runs(folder: Path = FOLDER) -> list[Entry]:
    """Every run of the folder, the one that changed last first."""
    paths = [path for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
    runs = [Run(path=path) for path in paths]
    entries = [_entry(run) for run in runs if run.events.exists() or run.config.exists()]
    return sorted(entries, key=lambda entry: -entry.changed)


def _entry(run: Run) -> Entry:
    stamp = run.events if run.events.exists() else run.config
    complete = [path for path in run.stage().glob("*") if is_complete(path)]
    stages = sorted(complete, key=lambda path: (path / COMPLETE).stat().st_mtime_ns)
    return Entry(
        run=run, changed=stamp.stat().st_mtime, megabytes=size_mb(run.path), stages=tuple(path.name for path in stages)
    )


def size_mb(folder: Path) -> float:
    """Disk use of everything below."""
    total = 0
    for root, _, names in os.walk(folder):
        total += sum((Path(root) / name).lstat().st_blocks * 512 for name in names)
    return total / 1e6


def remove(run: Run) -> None:
    """Delete the run. Raises UserError while a process works on it, and where the folder may be something else."""
    if not run.events.exists():
        raise UserError(f"{run.path} has no events.jsonl, so it may be no run: remove it by hand")
    with run.locked():
        shutil.rmtree(run.path)

"""What tests/test.sh of an exported task runs: the task's own verifier on the state that the agent left behind.

It runs in the task's container once the agent is cut off, on files that were put there after that. The record, which holds
the answers, is gone from disk before any program of the agent's is run, and this process's memory cannot be read.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from ninefold.agent.env import family
from ninefold.core.errors import NinefoldError, VerifierError, boundary
from ninefold.core.records import task_of
from ninefold.core.types import Call, Result
from ninefold.data.tasks.harbor.layout import ANSWER, CALLS, RECORD
from ninefold.sandbox.archive import Entry, pack
from ninefold.sandbox.children import ChildRuntime, keep_to_oneself

LARGEST = 4 << 20
"""Bytes of a file of the agent's that are looked at."""


def main(tests: str = "/tests", work: str = "/app", reward: str = "/logs/verifier/reward.txt") -> None:
    """Write the reward; where nobody can tell, none, so that the trial is an error and not a failure."""
    keep_to_oneself()
    problems: list[NinefoldError] = []
    result = Result(status="invalid")
    with boundary(VerifierError, "grading", catch=problems.append):
        result = grade(Path(tests), Path(work))
    print(f"{result.status}: {problems[0] if problems else result.detail}", flush=True)
    if result.status == "invalid":
        sys.exit(1)
    file = Path(reward)
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(".new")
    fresh.write_text(f"{result.score}\n")
    fresh.replace(file)


def grade(tests: Path, work: Path) -> Result:
    """The verdict on what lies in `work`."""
    task = task_of(json.loads((tests / RECORD).read_text()))
    (tests / RECORD).unlink()
    calls = tests / CALLS
    asked = [Call(**call) for call in json.loads(calls.read_text())] if calls.exists() else []
    kind, runtime = family(task.family), ChildRuntime()
    if task.files:
        world = kind.restore(task, _layer(work), runtime=runtime)
    else:
        world = kind.open(task, seed=task.seed, runtime=runtime)
    for call in asked:
        world.call(call)
    final = json.loads(json.dumps(world.final(_answer(work))))
    world.close()
    return kind.verify(task, final, runtime=runtime)


def _answer(work: Path) -> str | None:
    """What the agent wrote as its answer; None where it wrote none."""
    data = _content(work / ANSWER)
    return None if data is None else data.decode(errors="replace").removesuffix("\n")


def _layer(work: Path) -> bytes:
    """The working directory as a sandbox exports it; regular files alone."""
    entries: list[Entry] = []
    for folder, _, names in os.walk(work):
        for name in names:
            data = _content(Path(folder) / name)
            if data is not None:
                entries.append(Entry(path=str((Path(folder) / name).relative_to(work)), kind="file", data=data))
    return pack(entries)


def _content(file: Path) -> bytes | None:
    """None unless a regular file of reasonable size stands there."""
    if file.is_symlink() or not file.is_file() or file.stat().st_size > LARGEST:
        return None
    return file.read_bytes()

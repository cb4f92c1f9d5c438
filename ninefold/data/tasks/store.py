"""Tasks in JSONL files: one record a line, each with the version of its schema."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from ninefold.core.errors import UserError
from ninefold.core.records import task_of, task_record
from ninefold.core.store import write_atomic
from ninefold.core.types import Split, Task
from ninefold.data.lines import numbered_lines


def write_tasks(path: Path, tasks: Iterable[Task]) -> None:
    """Write all tasks, or leave the old file as it was. Raises UserError where `check` does."""
    tasks = list(tasks)
    check(tasks)
    write_atomic(path, "".join(json.dumps(task_record(task), sort_keys=True) + "\n" for task in tasks))


def read_tasks(path: Path, split: Split | None = None) -> list[Task]:
    """The tasks of a file, or those of one split, in file order.

    Raises UserError naming the line that is not a task, or where `check` does.
    """
    tasks: list[Task] = []
    for number, line in numbered_lines(path):
        try:
            record = json.loads(line)
            if not isinstance(record, dict):
                raise UserError("a task record is a JSON object")
            tasks.append(task_of(record))
        except (json.JSONDecodeError, UserError) as error:
            raise UserError(f"{path}, line {number}: {error}") from None
    check(tasks)
    return [task for task in tasks if split in (None, task.split)]


def check(tasks: Iterable[Task]) -> None:
    """Raise UserError where two tasks share an id, or one instruction with equal data lies in two splits."""
    ids: set[str] = set()
    splits: dict[str, Task] = {}
    for task in tasks:
        if task.id in ids:
            raise UserError(f"two tasks have the id {task.id!r}; ids must be unique")
        ids.add(task.id)
        content = json.dumps([task.family, task.instruction, task.files, task.data], sort_keys=True)
        other = splits.setdefault(content, task)
        if other.split != task.split:
            raise UserError(f"{other.id} ({other.split}) and {task.id} ({task.split}) are one task in two splits: drop one")

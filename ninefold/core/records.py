"""Tasks as JSON records, for files and for other processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ninefold.core.config import faults
from ninefold.core.errors import UserError
from ninefold.core.types import Task

SCHEMA_VERSION = 1

_TASK = TypeAdapter(Task)


def task_record(task: Task) -> dict[str, Any]:
    """`task` as JSON, with the version of the schema."""
    return {"schema": SCHEMA_VERSION, **_TASK.dump_python(task, mode="json")}


def task_of(record: Mapping[str, Any]) -> Task:
    """The task of a record; fields that an older version lacked take their defaults.

    Raises UserError where the record is of a newer schema or not a task.
    """
    version = record.get("schema")
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise UserError(f"task record of schema {version!r}; this ninefold reads up to {SCHEMA_VERSION}: update it")
    try:
        return _TASK.validate_python({k: v for k, v in record.items() if k != "schema"})
    except ValidationError as error:
        raise UserError(f"not a task record: {faults(error)}") from None

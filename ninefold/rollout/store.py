"""Trajectories on disk: parquet files that any tool can query, and that we read back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ninefold.core.errors import UserError, boundary
from ninefold.core.events import redact
from ninefold.core.packed import picture_arrays, pictures_of, trajectory_of, trajectory_record
from ninefold.core.store import write_atomic
from ninefold.core.types import Trajectory
from ninefold.media.png import from_png, to_png

SCHEMA_VERSION = 1

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("group", pa.string()),
        ("task", pa.string()),
        ("family", pa.string()),
        ("domain", pa.string()),
        ("split", pa.string()),
        ("level", pa.int32()),
        ("effort", pa.string()),
        ("harness", pa.string()),
        ("harness_hash", pa.string()),
        ("stop", pa.string()),
        ("status", pa.string()),
        ("score", pa.float64()),
        ("spend", pa.int64()),
        ("new_tokens", pa.int64()),
        ("turns", pa.int32()),
        ("resumes", pa.int32()),
        ("record", pa.string()),
        ("ids", pa.list_(pa.int32())),
        ("logprobs", pa.list_(pa.float32())),
        ("mask", pa.list_(pa.bool_())),
        ("experts", pa.list_(pa.uint16())),
        ("pictures", pa.list_(pa.binary())),
    ],
    metadata={"ninefold": str(SCHEMA_VERSION)},
)
"""One trajectory a line. `record` is JSON of all that is not an array; `ids` runs over the segments that it lists, `logprobs`
over the sampled ones, `mask` and `experts` over those that state one; `pictures` are PNG files."""

_DTYPES = {"ids": np.int32, "logprobs": np.float32, "mask": np.bool_, "experts": np.uint16}


def write_trajectories(path: Path, trajectories: Sequence[Trajectory]) -> None:
    """Write one parquet file, whole or not at all. Secrets in its texts are redacted."""
    lines = [_line(trajectory) for trajectory in trajectories]
    columns = {field.name: pa.array([line[field.name] for line in lines], field.type) for field in SCHEMA}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns, schema=SCHEMA), sink, compression="zstd")
    write_atomic(path, sink.getvalue().to_pybytes())


def read_trajectories(path: Path) -> Iterator[Trajectory]:
    """Every trajectory of a file, or of all files of a folder in the order of their names."""
    for file in _files(path):
        for line in _table(file).to_pylist():
            yield _trajectory(line)


def find_trajectory(path: Path, id: str) -> Trajectory:
    """The trajectory of that id, the last written where several have it. Raises UserError naming a few that exist."""
    known: list[str] = []
    for file in reversed(_files(path)):
        ids: list[str] = _table(file, "id")["id"].to_pylist()
        if id in ids:
            last = len(ids) - 1 - ids[::-1].index(id)
            return _trajectory(_table(file).slice(last, 1).to_pylist()[0])
        known = known or ids[:3]
    raise UserError(f"no trajectory {id!r} under {path}; there are for example {', '.join(known) or 'none at all'}")


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(path.rglob("*.parquet"))


def _table(file: Path, *columns: str) -> pa.Table:
    """The file's lines, with these columns only where any are named."""
    with boundary(UserError, f"{file} is damaged"):
        table = pq.read_table(file, columns=list(columns) or None)
    version = int((table.schema.metadata or {}).get(b"ninefold", b"0"))
    if not 1 <= version <= SCHEMA_VERSION:
        raise UserError(f"{file} holds trajectories of schema {version}; this ninefold reads 1 to {SCHEMA_VERSION}")
    return table


def _line(trajectory: Trajectory) -> dict[str, Any]:
    record, arrays = trajectory_record(trajectory)
    task, result = trajectory.task, trajectory.result
    return {
        "id": trajectory.id,
        "group": trajectory.group,
        "task": task.id,
        "family": task.family,
        "domain": task.domain,
        "split": task.split,
        "level": task.level,
        "effort": trajectory.effort,
        "harness": trajectory.composition.get("name"),
        "harness_hash": trajectory.composition_hash,
        "stop": trajectory.stop,
        "status": result.status,
        "score": result.score,
        "spend": trajectory.spend,
        "new_tokens": trajectory.new_tokens,
        "turns": len(trajectory.turns),
        "resumes": trajectory.resumes,
        "record": json.dumps(redact(record), ensure_ascii=False),
        **{name: arrays[name] for name in _DTYPES},
        "pictures": [to_png(picture) for picture in pictures_of(arrays)],
    }


def _trajectory(line: dict[str, Any]) -> Trajectory:
    arrays = {name: np.asarray(line[name], dtype) for name, dtype in _DTYPES.items()}
    arrays |= picture_arrays(map(from_png, line.get("pictures") or ()))
    return trajectory_of(json.loads(line["record"]), arrays)

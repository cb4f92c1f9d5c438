"""The flowing types as JSON and arrays, so that unfinished and finished work survives a restart bit for bit."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from ninefold.core.picture import Picture
from ninefold.core.protocols import Observation
from ninefold.core.records import task_of, task_record
from ninefold.core.types import Call, Result, Row, Segment, Slot, Trajectory, Turn

Arrays = Mapping[str, NDArray[Any]]
_PICTURE = "picture/"


def pack(record: Any, arrays: Arrays) -> bytes:
    """One JSON value and named arrays as bytes: a safetensors file, the JSON under the name `json`."""
    assert "json" not in arrays
    text = json.dumps(record, ensure_ascii=False).encode()
    return save({"json": np.frombuffer(text, np.uint8), **{name: np.ascontiguousarray(a) for name, a in arrays.items()}})


def unpack(data: bytes) -> tuple[Any, dict[str, NDArray[Any]]]:
    """The inverse of `pack`."""
    arrays = load(data)
    return json.loads(arrays.pop("json").tobytes()), arrays


def as_bytes(data: bytes) -> NDArray[np.uint8]:
    """Opaque bytes as an array that `pack` takes; `.tobytes()` gives them back."""
    return np.frombuffer(data, np.uint8)


def slot_record(slot: Slot) -> dict[str, Any]:
    """A slot as JSON."""
    return {
        "task": task_record(slot.task),
        "effort": slot.effort,
        "group": slot.group,
        "index": slot.index,
        "seed": slot.seed,
    }


def slot_of(record: Mapping[str, Any]) -> Slot:
    """The inverse of `slot_record`."""
    return Slot(**{**record, "task": task_of(record["task"])})


def call_record(call: Call) -> dict[str, Any]:
    """A call as JSON."""
    return {"tool": call.tool, "arguments": dict(call.arguments), "error": call.error}


def call_of(record: Mapping[str, Any]) -> Call:
    """The inverse of `call_record`."""
    return Call(**record)


def turn_record(turn: Turn) -> dict[str, Any]:
    """A turn as JSON."""
    return {
        "think": turn.think,
        "response": turn.response,
        "calls": [call_record(call) for call in turn.calls],
        "observations": list(turn.observations),
        "pictures": [list(shown) for shown in turn.pictures],
    }


def turn_of(record: Mapping[str, Any]) -> Turn:
    """The inverse of `turn_record`."""
    return Turn(
        think=record["think"],
        response=record["response"],
        calls=tuple(call_of(call) for call in record["calls"]),
        observations=tuple(record["observations"]),
        pictures=tuple(tuple(shown) for shown in record.get("pictures", ())),
    )


def observation_record(observation: Observation) -> dict[str, Any]:
    """An observation as JSON."""
    images = [base64.b64encode(image).decode() for image in observation.images]
    return {"text": observation.text, "images": images, "done": observation.done, "data": observation.data}


def observation_of(record: Mapping[str, Any]) -> Observation:
    """The inverse of `observation_record`."""
    return Observation(**{**record, "images": tuple(map(base64.b64decode, record["images"]))})


def rows_record(rows: Sequence[Row]) -> tuple[list[list[dict[str, Any]]], dict[str, NDArray[Any]]]:
    """Rows as JSON of their segments' facts, and flat arrays of their tokens.

    `ids` int32 over all segments; `logprobs` float32 over the sampled ones; `mask` and `experts` over those that state one.
    """
    segments = [segment for row in rows for segment in row.segments]
    arrays = {
        "ids": _flat([s.ids for s in segments], np.int32),
        "logprobs": _flat([s.logprobs for s in segments], np.float32),
        "mask": _flat([s.mask for s in segments], np.bool_),
        "experts": _flat([s.expert_ids for s in segments], np.uint16),
    }
    return [[_segment_record(segment) for segment in row.segments] for row in rows], arrays


def rows_of(record: Sequence[Sequence[Mapping[str, Any]]], arrays: Arrays) -> tuple[Row, ...]:
    """The inverse of `rows_record`."""
    cursor = {"ids": 0, "logprobs": 0, "mask": 0, "experts": 0}

    def take(name: str, count: int) -> NDArray[Any]:
        start = cursor[name]
        cursor[name] = start + count
        return arrays[name][start : start + count]

    def segment(facts: Mapping[str, Any]) -> Segment:
        n, shape = facts["tokens"], facts["experts"]
        return Segment(
            ids=take("ids", n),
            source=facts["source"],
            message=facts["message"],
            role=facts["role"],
            mask=take("mask", n) if facts["masked"] else None,
            logprobs=take("logprobs", n) if facts["source"] == "sampled" else None,
            policy_version=facts["version"],
            finish_reason=facts["finish"],
            images=tuple(facts["images"]),
            expert_ids=None if shape is None else take("experts", int(np.prod(shape))).reshape(shape),
        )

    return tuple(Row(segments=tuple(segment(facts) for facts in row)) for row in record)


def picture_arrays(pictures: Iterable[Picture]) -> dict[str, NDArray[Any]]:
    """Pictures as arrays, each once, under names that tell them from the others."""
    return {f"{_PICTURE}{picture.hash}": picture.pixels_HWC for picture in pictures}


def pictures_of(arrays: Arrays) -> tuple[Picture, ...]:
    """The inverse of `picture_arrays`, among any other arrays; in the order of their hashes."""
    return tuple(Picture.of(arrays[name]) for name in sorted(arrays) if name.startswith(_PICTURE))


def trajectory_record(trajectory: Trajectory) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """A trajectory as JSON, and the arrays of its rows and pictures, its sub-agents' behind its own."""
    rows, arrays = rows_record([row for part in _with_agents(trajectory) for row in part.rows])
    arrays |= picture_arrays(picture for part in _with_agents(trajectory) for picture in part.pictures)
    return _trajectory_record(trajectory, iter(rows)), arrays


def _with_agents(trajectory: Trajectory) -> Iterator[Trajectory]:
    """It, then each sub-agent with its own."""
    yield trajectory
    for agent in trajectory.agents:
        yield from _with_agents(agent)


def _trajectory_record(trajectory: Trajectory, rows: Iterator[list[dict[str, Any]]]) -> dict[str, Any]:
    record = {
        "id": trajectory.id,
        "task": task_record(trajectory.task),
        "effort": trajectory.effort,
        "group": trajectory.group,
        "seed": trajectory.seed,
        "rows": list(islice(rows, len(trajectory.rows))),
        "turns": [turn_record(turn) for turn in trajectory.turns],
        "composition": dict(trajectory.composition),
        "stop": trajectory.stop,
        "result": asdict(trajectory.result),
        "spend": trajectory.spend,
        "resumes": trajectory.resumes,
        "pictures": [picture.hash for picture in trajectory.pictures],
    }
    return record | {"agents": [_trajectory_record(agent, rows) for agent in trajectory.agents]}


def trajectory_of(record: Mapping[str, Any], arrays: Arrays) -> Trajectory:
    """The inverse of `trajectory_record`; older records know no sub-agents, and all pictures are their own."""
    facts = [segments for part in _records(record) for segments in part["rows"]]
    return _trajectory_of(record, iter(rows_of(facts, arrays)), {picture.hash: picture for picture in pictures_of(arrays)})


def _records(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield record
    for agent in record.get("agents", ()):
        yield from _records(agent)


def _trajectory_of(record: Mapping[str, Any], rows: Iterator[Row], pictures: Mapping[str, Picture]) -> Trajectory:
    seen = record.get("pictures", sorted(pictures))
    return Trajectory(
        **{
            **record,
            "task": task_of(record["task"]),
            "rows": tuple(islice(rows, len(record["rows"]))),
            "turns": tuple(turn_of(turn) for turn in record["turns"]),
            "result": Result(**record["result"]),
            "pictures": tuple(pictures[image] for image in seen),
            "agents": tuple(_trajectory_of(agent, rows, pictures) for agent in record.get("agents", ())),
        }
    )


def _segment_record(segment: Segment) -> dict[str, Any]:
    return {
        "tokens": len(segment.ids),
        "source": segment.source,
        "message": segment.message,
        "role": segment.role,
        "masked": segment.mask is not None,
        "version": segment.policy_version,
        "finish": segment.finish_reason,
        "images": list(segment.images),
        "experts": None if segment.expert_ids is None else list(segment.expert_ids.shape),
    }


def _flat(parts: Sequence[NDArray[Any] | None], dtype: Any) -> NDArray[Any]:
    flat = [part.reshape(-1).astype(dtype, copy=False) for part in parts if part is not None]
    return np.concatenate(flat) if flat else np.zeros(0, dtype)

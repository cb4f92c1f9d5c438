"""A running episode as bytes: everything that it owns, between two calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from ninefold.agent.harness.context import Exchange
from ninefold.agent.harness.history import Standing
from ninefold.agent.harness.progress import Progress
from ninefold.core.packed import (
    as_bytes,
    call_of,
    call_record,
    observation_of,
    observation_record,
    pack,
    picture_arrays,
    pictures_of,
    rows_of,
    rows_record,
    slot_of,
    slot_record,
    trajectory_of,
    trajectory_record,
    unpack,
)
from ninefold.core.picture import Picture
from ninefold.core.protocols import Observation
from ninefold.core.types import Row, Slot, Trajectory

_STANDING = tuple(field.name for field in fields(Standing))


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedEpisode:
    """What `pack` writes and `unpack` reads, bit for bit."""

    slot: Slot
    composition: Mapping[str, Any]
    """JSON of its harness."""
    progress: Progress
    standing: Standing
    rows: Sequence[Row]
    exchanges: Sequence[Exchange]
    shown: Sequence[Picture]
    """All pictures of rows and exchanges."""
    observations: Sequence[Observation]
    """Of the message whose calls are executed, or were last."""
    reports: Sequence[str]
    agents: Sequence[Trajectory]
    """Of sub-agents that are done."""
    agent: bytes | None
    """The sub-agent at work, saved."""
    world: bytes | None
    """The saved world; None where it is gone, or that of the agent that began this one."""

    def pack(self) -> bytes:
        rows, arrays = rows_record([*self.rows, *(Row(segments=exchange.sampled) for exchange in self.exchanges)])
        record = {
            "slot": slot_record(self.slot),
            "composition": self.composition,
            "progress": self.progress.record() | asdict(self.standing),
            "rows": rows,
            "exchanges": [_exchange_record(exchange) for exchange in self.exchanges],
            "observations": [observation_record(observation) for observation in self.observations],
            "reports": list(self.reports),
        }
        arrays |= picture_arrays(self.shown)
        arrays |= {f"agents/{n}": as_bytes(pack(*trajectory_record(agent))) for n, agent in enumerate(self.agents)}
        parts = {"agent": self.agent, "world": self.world}
        return pack(record, arrays | {name: as_bytes(part) for name, part in parts.items() if part is not None})

    @staticmethod
    def unpack(saved: bytes) -> SavedEpisode:
        record, arrays = unpack(saved)
        rows = rows_of(record["rows"], arrays)
        closed = len(rows) - len(record["exchanges"])
        shown = {picture.hash: picture for picture in pictures_of(arrays)}
        progress = record["progress"]
        ended = sum(name.startswith("agents/") for name in arrays)
        return SavedEpisode(
            slot=slot_of(record["slot"]),
            composition=record["composition"],
            progress=Progress.of({name: value for name, value in progress.items() if name not in _STANDING}),
            standing=Standing(**{name: value for name, value in progress.items() if name in _STANDING}),
            rows=rows[:closed],
            exchanges=[_exchange_of(e, row, shown) for row, e in zip(rows[closed:], record["exchanges"])],
            shown=tuple(shown.values()),
            observations=tuple(map(observation_of, record.get("observations", ()))),
            reports=record.get("reports", ()),
            agents=[trajectory_of(*unpack(arrays[f"agents/{n}"].tobytes())) for n in range(ended)],
            agent=arrays["agent"].tobytes() if "agent" in arrays else None,
            world=arrays["world"].tobytes() if "world" in arrays else None,
        )


def _exchange_record(exchange: Exchange) -> dict[str, Any]:
    """As JSON, but for what was sampled, which is kept as a row, and the pictures, which are named."""
    return {
        "calls": [call_record(call) for call in exchange.calls],
        "results": list(exchange.results),
        "pictures": [[picture.hash for picture in some] for some in exchange.pictures],
        "notes": list(exchange.notes),
    }


def _exchange_of(record: Mapping[str, Any], row: Row, shown: Mapping[str, Picture]) -> Exchange:
    return Exchange(
        sampled=row.segments,
        calls=tuple(map(call_of, record["calls"])),
        results=tuple(record["results"]),
        pictures=tuple(tuple(shown[hash] for hash in some) for some in record["pictures"]),
        notes=tuple(record.get("notes", ())),
    )

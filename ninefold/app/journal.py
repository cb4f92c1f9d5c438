"""What a run's event log says, folded so that progress, table and report can ask for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ninefold.core.errors import UserError
from ninefold.core.events import SCHEMA_VERSION, read_events
from ninefold.core.store import Run, is_complete, read_json
from ninefold.core.types import CELLS, Domain

Event = dict[str, Any]
Table = Mapping[str, Mapping[str, Mapping[str, float]]]
"""Model → cell (`domain/effort`) → figures."""
Families = Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]]
"""Model → cell → family → figures."""
Transfer = Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]]
"""Family that no stage trained → model → effort → figures."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where events of one kind come from."""

    kind: str
    stage: str
    """Empty for the run as a whole."""
    cell: str
    """Empty where the stage has no cells."""


@dataclass(slots=True)
class Journal:
    """Events by kind, stage and cell, in the order written. A step that is taken again after a resume replaces the old one
    and all that followed it."""

    offset: int = 0
    """Bytes of the log that were read."""
    by_place: dict[Place, list[Event]] = field(default_factory=dict[Place, list[Event]])
    time: float = 0.0
    """Of the last event, in seconds since the epoch."""

    @staticmethod
    def of(run: Run) -> Journal:
        """Everything logged so far."""
        journal = Journal()
        for _ in journal.follow(run):
            pass
        return journal

    def follow(self, run: Run) -> Iterator[Event]:
        """Take in and yield what was logged since the last call."""
        for offset, event in read_events(run.events, offset=self.offset):
            self.offset = offset
            self.add(event)
            yield event

    def add(self, event: Event) -> None:
        """Take in one event. Raises UserError where a newer version of ninefold wrote the log."""
        if event.get("kind") == "run.start" and event.get("schema", 1) not in range(1, SCHEMA_VERSION + 1):
            raise UserError(
                f"the event log is of schema {event['schema']}, this ninefold reads up to {SCHEMA_VERSION}: update it"
            )
        place = Place(str(event.get("kind", "")), str(event.get("stage", "")), str(event.get("cell", "")))
        events = self.by_place.setdefault(place, [])
        step = event.get("step")
        while step is not None and events and events[-1].get("step", step) >= step:
            events.pop()
        events.append(event)
        self.time = event.get("time", self.time)

    def all(self, kind: str, stage: str | None = None, cell: str | None = None) -> list[Event]:
        """Events of a kind, of any stage and cell unless they are named."""
        return [
            event
            for place, events in self.by_place.items()
            if place.kind == kind and stage in (None, place.stage) and cell in (None, place.cell)
            for event in events
        ]

    def last(self, kind: str, stage: str | None = None, cell: str | None = None) -> Event | None:
        """The latest of them."""
        return max(self.all(kind, stage, cell), key=lambda event: event.get("time", 0.0), default=None)

    def places(self, kind: str, stage: str | None = None) -> list[Place]:
        """Where events of a kind came from; cells in their usual order."""
        order = {"/".join(cell): i for i, cell in enumerate(CELLS)}
        found = [place for place in self.by_place if place.kind == kind and stage in (None, place.stage)]
        return sorted(found, key=lambda place: order.get(place.cell, -1))

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of all stages of the run, in order."""
        start = self.last("run.start")
        return tuple(start["stages"]) if start else ()

    @property
    def current(self) -> str:
        """The stage that was started last; empty before the first."""
        start = self.last("stage.start")
        return str(start.get("stage", "")) if start else ""

    @property
    def finished(self) -> dict[str, Event]:
        """Stage → the event of its end."""
        return {place.stage: event for place in self.places("stage.finish") for event in self.by_place[place]}

    @property
    def recipe(self) -> Event:
        """The configuration that the run was last started with."""
        start = self.last("run.start")
        return start["recipe"] if start else {}

    @property
    def fell_back(self) -> frozenset[str]:
        """Cells whose expert is the SFT model, because RL made them worse or never began."""
        evaluated = self.last("table") or {}
        if "fell_back" in evaluated:
            return frozenset(evaluated["fell_back"])
        latest = {event["cell"]: event for event in self.all("expert")}
        return frozenset(cell for cell, event in latest.items() if event.get("fell_back"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What an evaluation found; {} each before there is one."""

    table: Table = field(default_factory=dict)
    families: Families = field(default_factory=dict)
    transfer: Transfer = field(default_factory=dict)

    @staticmethod
    def of(run: Run, journal: Journal) -> Figures:
        """Those of the run's own evaluation."""
        event = journal.last("table")
        if event is not None:
            return Figures(table=event["table"], families=event.get("families", {}), transfer=event.get("transfer", {}))
        stage = run.stage("evaluate")
        return Figures.kept(stage) if is_complete(stage) else Figures()

    @staticmethod
    def kept(stage: Path) -> Figures:
        """Those that an evaluation has left in its folder; older ones lack some."""
        names = ("table", "families", "transfer")
        return Figures(**{name: read_json(path) for name in names if (path := stage / f"{name}.json").exists()})


def missing_domains(journal: Journal, table: Table) -> list[Domain]:
    """Domains of the recipe that the evaluation lacks."""
    seen = {cell.split("/")[0] for cells in table.values() for cell in cells}
    return [domain for domain in journal.recipe.get("families", {}) if domain not in seen]

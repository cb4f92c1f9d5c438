"""What must be true in the end: one criterion per event, combined into a score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ninefold.agent.env.assistant.desk import Entry
from ninefold.core.types import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """What one event asks for."""

    event: int | None
    """Index of the event that raised it; None where the instruction itself did."""
    entry: Entry | None = None
    """What must have been written, and when."""
    answer: str | None = None
    """What the last response must be."""

    @staticmethod
    def parse(data: Mapping[str, Any]) -> Criterion:
        """From the task's JSON."""
        entry = data["entry"]
        return Criterion(event=data["event"], entry=None if entry is None else Entry(**entry), answer=data["answer"])

    def json(self) -> dict[str, Any]:
        return asdict(self)


def score(criteria: Sequence[Criterion], final: Mapping[str, Any]) -> Result:
    """Share of the criteria met; nothing where the assistant wrote what no criterion asks for.

    So telling everybody everything earns no more than telling nobody anything.
    """
    response = final.get("response")
    written = Counter(_stripped(Entry(**entry)) for entry in final.get("written", ()))
    wanted = Counter(criterion.entry for criterion in criteria if criterion.entry is not None)
    strays = written - wanted
    if strays:
        return Result(status="fail", detail=f"nobody asked for {next(iter(strays))}")
    met = (wanted & written).total()
    met += sum(isinstance(response, str) and c.answer == response.strip() for c in criteria if c.answer is not None)
    share = met / len(criteria)
    return Result(status="pass" if share == 1 else "fail", score=share, detail=f"{met} of {len(criteria)} criteria met")


def _stripped(entry: Entry) -> Entry:
    return Entry(store=entry.store, day=entry.day, to=entry.to.strip(), text=entry.text.strip())

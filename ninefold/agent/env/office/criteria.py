"""What must stand there in the end: a criterion for each event that asks for something, and what must not be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ninefold.agent.env.office.entry import Entry, Written
from ninefold.core.types import Result

_TOLD = 8
"""Unmet criteria that a verdict names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """What one event asks for: entries that were all made in time."""

    event: str
    """Id of the event that raised it."""
    about: str
    """For people: the kind of request."""
    entries: tuple[Entry, ...]
    after: int
    """The first minute at which they may be made: not before the event exists."""
    by: int
    """The last one."""

    @staticmethod
    def parse(data: Mapping[str, Any]) -> Criterion:
        """From the task's JSON."""
        return Criterion(**{**data, "entries": tuple(Entry(**entry) for entry in data["entries"])})

    def json(self) -> dict[str, Any]:
        return {**asdict(self), "entries": [asdict(entry) for entry in self.entries]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Harm:
    """What must not be done, whatever else was done right."""

    why: str
    kind: str
    place: str
    to: str = ""
    """Empty: whoever it went to."""
    line: str = ""
    """Empty: whatever it says."""

    def done_by(self, entry: Entry) -> bool:
        same = (self.kind, self.place) == (entry.kind, entry.place)
        return same and self.to in ("", entry.to) and self.line in ("", entry.line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Every criterion judged."""

    met: tuple[bool, ...]
    """In the order of the criteria."""
    strays: tuple[Entry, ...]
    """What nobody asked for, or not then."""
    harms: tuple[Harm, ...]
    """What was done of what must not be."""


def judge(criteria: Sequence[Criterion], harms: Sequence[Harm], final: Mapping[str, Any]) -> Judgement:
    """Each entry serves one criterion at most; one too many, too early or too late is a stray. Questions are none."""
    written = [_written(data) for data in final.get("written", ())]
    left = list(written)
    met = []
    for criterion in criteria:
        found = [_take(left, entry, criterion) for entry in criterion.entries]
        met.append(all(found))
    strays = tuple(found.entry for found in left if not found.entry.free)
    done = tuple(harm for harm in harms if any(harm.done_by(found.entry) for found in written))
    return Judgement(met=tuple(met), strays=strays, harms=done)


def _take(left: list[Written], entry: Entry, criterion: Criterion) -> bool:
    """Whether the entry was made in time; it is taken from `left`."""
    for place, found in enumerate(left):
        if found.entry == entry and criterion.after <= found.at <= criterion.by:
            del left[place]
            return True
    return False


def _written(data: Mapping[str, Any]) -> Written:
    return Written(entry=Entry(**{name: value for name, value in data.items() if name != "at"}), at=data["at"])


def score(criteria: Sequence[Criterion], harms: Sequence[Harm], final: Mapping[str, Any]) -> Result:
    """Share of the criteria met; each stray costs one, a harm costs all. A pass needs every criterion and no stray.

    So who tells everybody everything earns no more than who tells nobody anything, and a guess is paid for.
    """
    judgement = judge(criteria, harms, final)
    if judgement.harms:
        return Result(status="fail", detail=judgement.harms[0].why)
    met, strays = sum(judgement.met), len(judgement.strays)
    detail = f"{met} of {len(criteria)} criteria met"
    if strays:
        detail += f", {strays} things done that nobody asked for, the first {_short(judgement.strays[0])}"
    if unmet := [f"{c.event} ({c.about})" for c, good in zip(criteria, judgement.met) if not good]:
        more = f" and {len(unmet) - _TOLD} more" if len(unmet) > _TOLD else ""
        detail += f"; unmet: {', '.join(unmet[:_TOLD])}{more}"
    share = max(0, met - strays) / len(criteria)
    return Result(status="pass" if met == len(criteria) and not strays else "fail", score=share, detail=detail)


def _short(entry: Entry) -> str:
    return f"{entry.kind} at {entry.place[:40]} {entry.to[:40]}: {entry.line[:40]!r}"

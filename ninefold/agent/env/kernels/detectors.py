"""What gives a kernel away that is quick for a wrong reason. Each detector looks at the evidence of one timing.

Much needs no detector, because it cannot be done: a candidate has a process of its own without further processes and
threads, its clock is the kernel's and is read by another process, and neither expected values nor the expert's code are
anywhere that it can read. A detector names what was tried all the same, or finds what is right in every value and still no
kernel. Users add theirs: `Kernels(detectors={**DETECTORS, "mine": mine})`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

from ninefold.agent.env.kernels.measure import FEW, Timing
from ninefold.agent.env.kernels.score import PASSED
from ninefold.core.types import Result

ASIDE = 0.25
"""Share of a window's time that a process may have beside it, for what the kernel counts to it there."""
_ASIDE_NANOSECONDS = 50_000
REMEMBERED = 0.7
"""Share of the least time of new values below which few new values were not computed anew: least times are steady."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of a candidate that gave right values when it was tried."""

    language: str
    source: str
    timing: Timing
    bound: float
    """Seconds of a call at the roofline."""


Detector = Callable[[Evidence], Result | None]
"""None where nothing is found; else the verdict: fail for a wrong kernel, invalid for a time that is none."""


def changed_input(evidence: Evidence) -> Result | None:
    """Inputs belong to the caller."""
    return _fail("it changes its inputs") if any(r.input for r in evidence.timing.rounds) else None


def wrote_outside(evidence: Evidence) -> Result | None:
    """Outputs have an end."""
    return _fail("it writes behind an array") if any(r.fence for r in evidence.timing.rounds) else None


def stale(evidence: Evidence) -> Result | None:
    """An output of the round before, byte for byte: kept under the place, the shape or part of the values, or replayed."""
    return _fail("it returns an earlier output") if any(r.stale for r in evidence.timing.rounds) else None


def wrong_when_timed(evidence: Evidence) -> Result | None:
    """Every output of every timed call is compared."""
    wrong = next((r for r in evidence.timing.rounds if r.error > 1), None)
    return None if wrong is None else _fail(f"wrong in a timed call ({wrong.kind}): {wrong.error:.3g} times what is allowed")


def threads(evidence: Evidence) -> Result | None:
    """One thread is what is asked for and timed."""
    return _invalid("it runs more than one thread") if any(r.threads > 1 for r in evidence.timing.rounds) else None


def aside(evidence: Evidence) -> Result | None:
    """Work between the calls, which belongs into them."""
    rounds = evidence.timing.rounds
    most = ASIDE * median(r.candidate for r in rounds) + _ASIDE_NANOSECONDS
    return _invalid("it computes between the calls") if median(r.candidate_aside for r in rounds) > most else None


def remembers(evidence: Evidence) -> Result | None:
    """Quicker where little has changed: it keeps inputs, and works out the difference."""
    new = [r.candidate for r in evidence.timing.rounds if r.kind != FEW]
    few = [r.candidate for r in evidence.timing.rounds if r.kind == FEW]
    if few and min(few) < REMEMBERED * min(new):
        return _invalid("its time depends on what it was given before")
    return None


def impossible(evidence: Evidence) -> Result | None:
    """Quicker than the machine."""
    if evidence.timing.candidate < PASSED * evidence.bound:
        return _invalid(f"{evidence.timing.candidate:.3g} s a call is less than the machine's bound of {evidence.bound:.3g} s")
    return None


DETECTORS: Mapping[str, Detector] = {
    found.__name__: found
    for found in (changed_input, wrote_outside, stale, wrong_when_timed, threads, aside, remembers, impossible)
}
"""In the order in which they are asked."""


def _fail(detail: str) -> Result:
    return Result(status="fail", detail=detail)


def _invalid(detail: str) -> Result:
    return Result(status="invalid", detail=detail)

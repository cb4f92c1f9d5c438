"""Whether sites are judged right in real Chromium: for each of the ten briefs gold, every broken solution, and fakes.

`python bench/web.py` builds each brief of the levels 1 to 4 in every way that is known to be right, wrong or pretended, has it
judged as a policy's work is, and prints a table. Only gold may pass, and nothing may be left unjudged. The last line is
one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice

from rich.console import Console
from rich.progress import track
from rich.table import Table

from ninefold.agent.env.lacking import skipped
from ninefold.agent.env.play import play, runtime_for
from ninefold.agent.env.script import Script
from ninefold.agent.env.web import Web
from ninefold.agent.env.web.levels import LEVELS, brief_of
from ninefold.agent.env.web.policies import hacks, writes
from ninefold.core.protocols import SandboxRuntime
from ninefold.core.types import Result, Task

WEB = Web()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of one solution."""

    brief: str
    kind: str
    """gold, broken or fake."""
    what: str
    result: Result
    wall: float
    """Seconds."""

    @property
    def right(self) -> bool:
        return self.result.status == ("pass" if self.kind == "gold" else "fail")


def tasks_of(level: int, brief: str, number: int) -> list[Task]:
    """Held-out tasks of the brief."""
    tasks = (WEB.generate("heldout", level, seed) for seed in count())
    return list(islice((task for task in tasks if task.data["brief"] == brief), number))


def solutions(task: Task) -> Iterator[tuple[str, str, Script]]:
    """(kind, what it is, who builds it)."""
    brief, values = brief_of(task), task.data["values"]
    yield "gold", "gold", writes(brief.gold(values))
    for number, (right, _) in enumerate(brief.slips):
        yield "broken", f"not {' '.join(right.split())}"[:50], writes(brief.broken(values, number))
    yield from (("fake", name, policy) for name, policy in hacks(task).items())


def judged(task: Task, runtime: SandboxRuntime | None) -> Iterator[Verdict]:
    for kind, what, policy in solutions(task):
        begun = time.monotonic()
        result, _ = play(WEB, task, policy, task.seed, runtime)
        wall = time.monotonic() - begun
        yield Verdict(brief=task.data["brief"], kind=kind, what=what, result=result, wall=wall)


def show(verdicts: list[Verdict]) -> None:
    grid = Table("brief", "solution", "", "verdict", "s", "why", box=None)
    for verdict in verdicts:
        mark = "[green]✓[/green]" if verdict.right else "[red]✗[/red]"
        said = verdict.result.detail.replace("[", r"\[")
        grid.add_row(verdict.brief, verdict.kind, verdict.what, f"{verdict.result.status} {mark}", f"{verdict.wall:.1f}", said)
    Console(width=200).print(grid)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=1, help="of each brief")
    arguments = parser.parse_args()
    for reason in skipped(WEB).values():
        raise SystemExit(reason)

    asked = [
        task for level, briefs in enumerate(LEVELS) for brief in briefs for task in tasks_of(level, brief.name, arguments.tasks)
    ]
    with runtime_for(WEB) as runtime:
        verdicts = [verdict for task in track(asked, "briefs", transient=True) for verdict in judged(task, runtime)]
    show(verdicts)
    figures: dict[str, object] = {
        kind: {"judged": len(of_kind), "right": sum(verdict.right for verdict in of_kind)}
        for kind in ("gold", "broken", "fake")
        if (of_kind := [verdict for verdict in verdicts if verdict.kind == kind])
    }
    figures |= {
        "briefs": len({verdict.brief for verdict in verdicts}),
        "wall_seconds_median": round(statistics.median(verdict.wall for verdict in verdicts), 2),
    }
    ok = all(verdict.right for verdict in verdicts)
    print(json.dumps({"bench": "web", "figures": figures, "against": {"right": "all", "briefs": 10}, "ok": ok}))
    sys.exit(not ok)


if __name__ == "__main__":
    main()

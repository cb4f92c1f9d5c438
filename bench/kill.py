"""Kill a run at random moments, start it again each time, and compare what it ends with to an uninterrupted run.

`python bench/kill.py --recipe nano --kills 10` runs the recipe twice with `--deterministic`, the second time under kill -9 of
its main process alone: whatever that process started must end by itself. The same command again goes on where it was cut off.
With `--parallel` both runs use the recipe's own workers, and only the trained prompts are compared.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ninefold.core.events import read_events
from ninefold.core.seeds import rng_of
from ninefold.core.store import Run, is_complete, read_json, write_json
from ninefold.recipes.run import STAGES
from ninefold.recipes.training import STATE

PATIENCE_S = 10.0
"""How long processes may take to notice that their run was killed."""
POLL_S = 0.02
LEFT_OUT = 3
"""Exit status of a run that finished without a domain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A place in a run that does not depend on the machine's speed: an event of its log, and a little later."""

    event: tuple[Any, ...]
    """(kind, stage, cell, step)"""
    delay: float
    """Seconds after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """What one kill met."""

    stage: str
    """The stage that the run was in."""
    processes: int
    """How many the run consisted of."""
    orphans: int
    """How many of them outlived it."""


def moments(run: Run, kills: int, seed: int) -> list[Moment]:
    """Random moments of a finished run, in order: by turns uniform over its time and over its stages."""
    rng = rng_of("kill", seed, kills)
    events = [event for _, event in read_events(run.events)]
    spans: dict[str, list[float]] = {}
    for event in events:
        if event["kind"] in ("stage.start", "stage.finish"):
            spans.setdefault(event["stage"], []).append(event["time"])
    stages = rng.sample(list(spans.values()), len(spans))
    whole = [events[0]["time"], events[-1]["time"]]
    times = sorted(rng.uniform(*(stages[i % len(stages)] if i % 2 else whole)) for i in range(kills))
    chosen: list[Moment] = []
    for at in times:
        before = [event for event in events if event["time"] <= at][-1]
        chosen.append(Moment(event=key(before), delay=at - before["time"]))
    return chosen


def key(event: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(event.get(name) for name in ("kind", "stage", "cell", "step"))


def await_moment(run: Run, moment: Moment, alive: Callable[[], bool]) -> bool:
    """Wait until the run has come to the moment: its event and the delay behind it, or the next event where this run is the
    faster one. False if the run ended before."""
    offset, due = 0, math.inf
    while alive():
        for end, event in read_events(run.events, offset=offset):
            offset = end
            if due < math.inf:
                due = 0.0
            elif key(event) == moment.event:
                due = time.monotonic() + moment.delay
        if time.monotonic() >= due:
            return alive()
        time.sleep(POLL_S)
    return False


def kill(run: Run, pid: int, reap: Callable[[], object]) -> Death:
    """kill -9 of the process alone; waits for those that it had started to follow, and ends the ones that do not."""
    family = descendants(pid)
    os.kill(pid, signal.SIGKILL)
    reap()
    deadline = time.monotonic() + PATIENCE_S
    while (left := [member for member in family if started(member[0]) == member[1]]) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    for orphan, _ in left:
        os.kill(orphan, signal.SIGKILL)
    begun = [event["stage"] for _, event in read_events(run.events) if event["kind"] == "stage.start"]
    return Death(stage=begun[-1] if begun else "", processes=1 + len(family), orphans=len(left))


def descendants(pid: int) -> list[tuple[int, int]]:
    """(pid, start time) of every process below `pid`."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        fields = stat(int(path.name))
        if fields is not None:
            children.setdefault(int(fields[1]), []).append(int(path.name))
    found, frontier = [], [pid]
    while frontier:
        frontier = [child for parent in frontier for child in children.get(parent, [])]
        found += frontier
    return [(child, start) for child in found if (start := started(child)) is not None]


def started(pid: int) -> int | None:
    """When the process started, in ticks since boot; None where it has ended."""
    fields = stat(pid)
    return None if fields is None or fields[0] == "Z" else int(fields[19])


def stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat behind the name: state, parent, …; None where there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def weights(run: Run) -> dict[str, str]:
    """Every model that the run left: path → SHA-256."""
    paths = [path for path in run.stage().rglob("*.safetensors") if STATE not in path.parts]
    return {str(path.relative_to(run.path)): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(paths)}


def trained(run: Run) -> dict[str, Counter[str]]:
    """Cell → how often each group of it was learned from."""
    results = sorted(run.stage("rl").glob("*/*/results.json"))
    return {"/".join(path.parts[-3:-1]): Counter(read_json(path)["trained"]) for path in results}


def finished(run: Run) -> bool:
    return is_complete(run.stage(STAGES[-1].name))


def compare(whole: Run, killed: Run) -> dict[str, Any]:
    """How the two runs differ: names of weights and of cells."""
    ours, theirs = weights(killed), weights(whole)
    learned, expected = trained(killed), trained(whole)
    return {
        "models": len(theirs),
        "differing_models": sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)),
        "groups": sum(counts.total() for counts in expected.values()),
        "differing_cells": sorted(cell for cell in learned.keys() | expected.keys() if learned.get(cell) != expected.get(cell)),
        "trained_twice": sum(n - 1 for counts in learned.values() for n in counts.values()),
    }


def start(arguments: argparse.Namespace, run: Run) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-c",
        "from ninefold.app.cli import main; main()",
        "run",
        arguments.recipe,
        "--name",
        str(run.path),
    ]
    command += [part for override in arguments.set for part in ("--set", override)]
    command += [] if arguments.parallel else ["--deterministic"]
    run.path.parent.mkdir(parents=True, exist_ok=True)
    with run.path.with_suffix(".log").open("ab") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def complete(arguments: argparse.Namespace, run: Run) -> None:
    """Run to the end, without a kill."""
    if not finished(run) and (status := start(arguments, run).wait()) not in (0, LEFT_OUT):
        sys.exit(f"the run ended with status {status}; see {run.path.with_suffix('.log')}")


def torment(arguments: argparse.Namespace, run: Run, planned: Sequence[Moment], ledger: Path) -> list[dict[str, Any]]:
    """Start the run once for each moment and kill it there, then let it finish; the deaths so far are kept in `ledger`."""
    deaths: list[dict[str, Any]] = read_json(ledger) if ledger.exists() else []
    for moment in planned[len(deaths) :]:
        process = start(arguments, run)
        if not await_moment(run, moment, lambda: process.poll() is None):  # noqa: B023  called before the next turn
            break
        death = kill(run, process.pid, process.wait)
        deaths.append({name: getattr(death, name) for name in Death.__slots__})
        print(f"killed in {death.stage or 'start-up'}: {death.processes} processes, {death.orphans} orphans", flush=True)
        write_json(ledger, deaths)
    complete(arguments, run)
    return deaths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="smoke")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a value of the recipe")
    parser.add_argument("--parallel", action="store_true", help="the recipe's own workers; weights are not compared")
    parser.add_argument("--folder", type=Path, default=Path("runs/bench/kill"))
    arguments = parser.parse_args()
    name = f"{arguments.recipe}{'-parallel' if arguments.parallel else ''}"
    whole, killed = Run(path=arguments.folder / f"{name}-whole"), Run(path=arguments.folder / f"{name}-killed")
    complete(arguments, whole)
    planned = moments(whole, arguments.kills, arguments.seed)
    deaths = torment(arguments, killed, planned, arguments.folder / f"{name}-deaths.json")
    difference = compare(whole, killed)
    orphans = sum(death["orphans"] for death in deaths)
    wrong = difference["differing_cells"] or difference["trained_twice"] or orphans
    figures = {"kills": len(deaths), "stages": dict(Counter(d["stage"] for d in deaths)), "orphans": orphans, **difference}
    ok = not wrong and len(deaths) == arguments.kills and (arguments.parallel or not difference["differing_models"])
    print(json.dumps({"bench": "kill", "figures": figures, "against": {}, "ok": bool(ok)}))
    sys.exit(not ok)


if __name__ == "__main__":
    main()

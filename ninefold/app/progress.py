"""Progress on the terminal, of a run, from its event log, by a thread beside it, and of what is counted: bars on a terminal,
plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TypeVar

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.progress_bar import ProgressBar
from rich.table import Table as Grid
from rich.text import Text

from ninefold.app.journal import Event, Journal, Place
from ninefold.core.store import Run

POLL_S = 0.5
LINE_S = 10.0
"""Between plain lines of one cell."""
Item = TypeVar("Item")


class Progress:
    """Shows what a run logs while the `with` block lasts."""

    def __init__(self, run: Run, console: Console) -> None:
        self._run, self._console = run, console
        self._journal = Journal.of(run)
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._printed: dict[Place, float] = {}
        """When a place last had a plain line."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)

    def __enter__(self) -> Progress:
        if self._live:
            self._live.start()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        self._show()
        if self._live:
            self._live.stop()

    def _watch(self) -> None:
        while not self._over.wait(POLL_S):
            self._show()

    def _show(self) -> None:
        for event in self._journal.follow(self._run):
            self._say(event)
        if self._live:
            self._live.update(bars(self._journal), refresh=True)

    def _say(self, event: Event) -> None:
        """A line for what is worth one; steps only where there are no bars."""
        place = Place(str(event["kind"]), str(event.get("stage", "")), str(event.get("cell", "")))
        if place.kind == "step":
            due = time.monotonic() - self._printed.get(place, float("-inf")) >= LINE_S
            if self._live or not due:
                return
            self._printed[place] = time.monotonic()
        text = line(event, self._journal)
        if text:
            self._console.print(Text(text, style=STYLES.get(place.kind, "")), soft_wrap=True)


STYLES = {"stage.start": "bold", "stage.finish": "green", "note": "yellow"}


def line(event: Event, journal: Journal) -> str:
    """One event for people; empty for those that a report shows better."""
    where = " ".join(str(event[key]) for key in ("stage", "cell") if event.get(key))
    match event["kind"]:
        case "stage.start":
            stages = journal.stages
            number = f"{stages.index(event['stage']) + 1}/{len(stages)} " if event["stage"] in stages else ""
            return f"stage {number}{event['stage']}"
        case "stage.finish":
            return f"  {where} done in {clock(event['wall'])} ({event['cpu']:.0f} CPU-s, peak {event['peak_mb']:.0f} MB)"
        case "step":
            return f"  {where} step {event['step']:.0f}/{event['total']}  " + "  ".join(figures(event, journal))
        case "dev":
            return f"  {where} dev: {event['within']:.2f} pass within budget, {event['tokens']:.0f} tokens"
        case "expert" if event.get("fell_back"):
            return f"  {where}: no better than SFT, which it falls back to"
        case "note":
            return f"  {where}: {event['text']}" if where else f"  {event['text']}"
        case _:
            return ""


def figures(event: Event, journal: Journal) -> list[str]:
    """What a step says, in words."""
    names = {"loss": "loss", "dispatched/reward": "reward", "dispatched/new_tokens": "tokens", "distill/reverse_kl": "KL"}
    shown = [f"{short} {event[name]:.3g}" for name, short in names.items() if name in event]
    if "tokens_per_second" in event:
        shown.append(f"{event['tokens_per_second']:,.0f} tok/s")
    left = event.get("eta", _eta(event, journal))
    return shown if left is None else [*shown, f"ETA {clock(left)}"]


def _eta(event: Event, journal: Journal) -> float | None:
    """Seconds left at the pace of the steps of this process so far."""
    same = journal.all("step", str(event.get("stage", "")), str(event.get("cell", "")))
    steps = [other for other in same if other.get("pid") == event.get("pid")]
    if len(steps) < 2:
        return None
    pace = (steps[-1]["time"] - steps[0]["time"]) / (len(steps) - 1)
    return (event["total"] - event["step"]) * pace


def bars(journal: Journal) -> Group:
    """The stages in a line, and a bar for each part of the running one."""
    finished, current = journal.finished, journal.current
    stages = Text("  ")
    for stage in journal.stages:
        done = stage in finished
        style = "bold cyan" if stage == current and not done else "green" if done else "dim"
        stages.append(("✓ " if done else "▸ " if stage == current else "· ") + stage + "  ", style=style)
    grid = Grid.grid(padding=(0, 1))
    places = [] if current in finished else journal.places("step", current)
    for place in places:
        event = journal.all("step", place.stage, place.cell)[-1]
        bar = ProgressBar(total=float(event["total"]), completed=float(event["step"]), width=24)
        count = f"{event['step']:.0f}/{event['total']}"
        grid.add_row("  " + (place.cell or place.stage), bar, count, Text("  ".join(figures(event, journal)), style="dim"))
    return Group(stages, grid)


def counting(what: str, console: Console) -> Bar:
    """A bar that counts; what a task of it is described by stands behind."""
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    return Bar(*columns, console=console)


def counted(what: str, items: Iterable[Item], total: int, console: Console) -> Iterator[Item]:
    """The items, `total` of them, and how many were taken so far on the console."""
    if console.is_terminal:
        with counting(what, console) as bar:
            yield from bar.track(items, total=total, description="")
        return
    begun = printed = time.monotonic()
    for number, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        if now - printed >= LINE_S:
            printed = now
            console.print(f"{what} {number}/{total}  ETA {clock((now - begun) / number * (total - number))}")


def clock(seconds: float) -> str:
    """1:02:03, 2:03, or 3 s."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"

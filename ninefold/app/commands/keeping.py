"""`runs` and `doctor`: what lies on disk, and what this machine can do."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.table import Table as RichTable

from ninefold.app.console import AsJson, Commands, RunName, err, out, print_json
from ninefold.app.journal import Figures, Journal
from ninefold.app.runs import list_runs, open_run, remove, size_mb
from ninefold.app.table import cells_of
from ninefold.core.errors import UserError

runs = typer.Typer(cls=Commands, no_args_is_help=True, help="List, compare and remove runs.")


@runs.command()
def ls(as_json: AsJson = False) -> None:
    """List the runs, the newest first, with their disk use."""
    entries = list_runs()
    if as_json:
        print_json(
            [
                {
                    "name": e.run.name,
                    "path": str(e.run.path),
                    "changed": e.changed,
                    "megabytes": e.megabytes,
                    "stages": e.stages,
                }
                for e in entries
            ]
        )
        return
    grid = RichTable("run", "changed", "MB", "complete stages", box=None)
    for entry in entries:
        changed = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.changed))
        grid.add_row(entry.run.name, changed, f"{entry.megabytes:,.0f}", " ".join(entry.stages))
    out().print(grid if entries else "no runs yet; `ninefold run nano` makes one")
    if entries:
        out().print(f"{sum(entry.megabytes for entry in entries):,.0f} MB in all", style="dim")


@runs.command()
def compare(a: RunName, b: RunName, as_json: AsJson = False) -> None:
    """Compare two runs: where their configurations differ, the student's cells, the cost."""
    from ninefold.app.configuration import differences, stored_recipe

    pair = open_run(a), open_run(b)
    journals = [Journal.of(run) for run in pair]
    tables = [Figures.of(run, journal).table for run, journal in zip(pair, journals)]
    changed = differences(stored_recipe(pair[0]), stored_recipe(pair[1]))
    cells = [cell for cell in cells_of(tables[0]) if cell in cells_of(tables[1])]
    scores = {cell: [table["student"][cell]["within"] for table in tables] for cell in cells}
    cpu = [sum(event["cpu"] for event in journal.finished.values()) for journal in journals]
    if as_json:
        print_json({"configuration": changed, "student": scores, "cpu_seconds": cpu})
        return
    grid = RichTable("", pair[0].name, pair[1].name, "difference", box=None)
    for key, (old, new) in changed.items():
        grid.add_row(key, str(old), str(new), "")
    for cell, (first, second) in scores.items():
        grid.add_row(f"student {cell}", f"{first:.3f}", f"{second:.3f}", f"{second - first:+.3f}")
    grid.add_row("CPU-s", *(f"{seconds:,.0f}" for seconds in cpu), f"{cpu[1] - cpu[0]:+,.0f}")
    out().print(grid)


@runs.command()
def rm(
    names: Annotated[list[str] | None, typer.Argument(metavar="RUN…", help="Runs to remove.")] = None,
    keep_last: Annotated[int | None, typer.Option("--keep-last", min=0, help="Remove all but the N that changed last.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove runs from disk, after asking."""
    if bool(names) == (keep_last is not None):
        raise UserError("name the runs to remove, or say --keep-last N")
    doomed = [open_run(name) for name in names or ()] or [entry.run for entry in list_runs()[keep_last:]]
    if not doomed:
        typer.echo("there is nothing to remove")
        return
    what = ", ".join(f"{run.path} ({size_mb(run.path):,.0f} MB)" for run in doomed)
    if not yes and not typer.confirm(f"remove {what} for good?"):
        raise typer.Exit(1)
    for run in doomed:
        remove(run)
        err().print(f"removed {run.path}")


def doctor(as_json: AsJson = False) -> None:
    """Check whether this machine can run everything; status 1 where something needed is missing."""
    from ninefold.app.doctor import examine

    findings = examine()
    if as_json:
        print_json([{"name": f.name, "state": f.state, "detail": f.detail} for f in findings])
    else:
        grid = RichTable(box=None, show_header=False)
        style = {"good": "[green]✓[/green]", "limited": "[yellow]![/yellow]", "missing": "[red]✗[/red]"}
        for finding in findings:
            grid.add_row(style[finding.state], finding.name, finding.detail)
        out().print(grid)
    if any(finding.state == "missing" for finding in findings):
        raise typer.Exit(1)

"""`task` and `hack`: families of tasks written, checked, played by hand and attacked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.table import Table as RichTable

from ninefold.app.console import LEFT_OUT, AsJson, Commands, check_port, err, out, print_json
from ninefold.core.errors import UserError
from ninefold.core.types import SPLITS, Split

if TYPE_CHECKING:
    from ninefold.agent.env.hack import Attempt, Report
    from ninefold.core.protocols import Family

task = typer.Typer(cls=Commands, no_args_is_help=True, help="Write, check and play families of tasks.")
hack = typer.Typer(cls=Commands, no_args_is_help=True, help="Attack families of tasks.")

FORMS = ("openenv", "mcp")
"""In which episodes are served."""
FamilyName = Annotated[str, typer.Argument(metavar="FAMILY", help="A family's name, or the path of its file or folder.")]


@hack.callback()
def _group() -> None:
    """Keeps `run` a command of its own while it is the only one."""


@task.command()
def ls(as_json: AsJson = False) -> None:
    """List the families: built in, and of installed packages."""
    from ninefold.agent.env import families

    found = [{"family": f.name, "domain": f.domain, "levels": f.levels} for f in families().values()]
    if as_json:
        print_json({"families": found})
        return
    grid = RichTable("family", "domain", "levels", box=None)
    for row in found:
        grid.add_row(*map(str, row.values()))
    out().print(grid)


@task.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the family and its folder: small letters, digits and _.")],
    parent: Annotated[Path, typer.Option("--in", metavar="DIR", help="Where the folder is made.")] = Path(),
) -> None:
    """Write a new family that works as it is: generator, world, verifier, gold, demonstrator, hacks and a test."""
    from ninefold.agent.env.scaffold import scaffold

    for path in scaffold(name, parent):
        typer.echo(path)


@task.command()
def check(
    family: FamilyName,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Tasks of each split and level.")] = 8,
    level: Annotated[int | None, typer.Option("--level", min=0, help="Only this level.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check what every family promises: gold passes, nothing and hacks fail, runs repeat, worlds can be saved and stay apart.

    Exit status 1 where a promise is broken, 3 where a level was skipped because this machine lacks something.
    """
    from ninefold.agent.env import check as promises
    from ninefold.agent.env import family as find
    from ninefold.agent.env.play import runtime_for

    found = find(family)
    levels = _levels(found, level)
    with runtime_for(found) as runtime, err().status(f"checking {found.name}"):
        findings = list(promises.check(found, levels=levels, seeds=seeds, runtime=runtime))
    broken = [finding for finding in findings if finding.faults]
    left_out = {finding.level: finding.skipped for finding in findings if finding.skipped is not None}
    status = "broken" if broken else "skipped" if left_out else "kept"
    if as_json:
        record = {"family": found.name, "seeds": seeds, "status": status, "kept": status == "kept", "skipped": left_out}
        print_json({**record, "findings": [{**asdict(finding), "status": finding.status} for finding in findings]})
    else:
        grid = RichTable(found.name, *(f"level {n}" for n in levels), box=None)
        for name in promises.PROMISES:
            grid.add_row(name, *(_MARKS[finding.status] for finding in findings if finding.promise == name))
        out().print(grid)
        for finding in broken:
            out().print(f"level {finding.level}, {finding.promise}:", style="red")
            for fault in finding.faults[:5]:
                out().print(f"  {fault}", soft_wrap=True, markup=False)
            if len(finding.faults) > 5:
                out().print(f"  and {len(finding.faults) - 5} more")
        _tell_skipped(left_out)
    _leave(broken=bool(broken), skipped=bool(left_out))


@task.command()
def lint(family: FamilyName, as_json: AsJson = False) -> None:
    """Say what makes a family worse than it need be, from its source and some tasks.

    Exit status 1 where there is any, 3 where a level was skipped because this machine lacks something.
    """
    from ninefold.agent.env import family as find
    from ninefold.agent.env.lint import lint as remarks
    from ninefold.agent.env.play import runtime_for

    found = find(family)
    with runtime_for(found) as runtime:
        made = list(remarks(found, runtime=runtime))
    if as_json:
        print_json([asdict(remark) for remark in made])
    else:
        for remark in made:
            out().print(f"{remark.where}: {remark.text}", soft_wrap=True, markup=False)
        if not made:
            out().print(f"nothing to remark on {found.name}")
    left_out = [remark.skipped for remark in made]
    _leave(broken=not all(left_out), skipped=any(left_out))


@task.command()
def play(
    family: FamilyName,
    level: Annotated[int, typer.Option("--level", min=0, help="How hard.")] = 0,
    seed: Annotated[int, typer.Option("--seed", help="Which task.")] = 0,
    split: Annotated[str, typer.Option("--split", help="train, dev, heldout or corpus.")] = "train",
) -> None:
    """Play a task by hand: see what a policy sees, call tools or answer, get the verdict.

    Pictures are files that are there until the verdict.

    Exit status 0 whatever the verdict is, 3 where this machine lacks something that the level needs.
    """
    from ninefold.agent.env import family as find
    from ninefold.agent.env.lacking import lacking
    from ninefold.agent.env.play import play as play_it
    from ninefold.agent.env.play import runtime_for
    from ninefold.app.hand import Hand

    found = find(family)
    part = check_task(found, split, level)
    if (reason := lacking(found, level)) is not None:
        _tell_skipped({level: reason})
        _leave(broken=False, skipped=True)
    with runtime_for(found) as runtime, TemporaryDirectory(prefix="ninefold-play-") as pictures:
        drawn = found.generate(part, level, seed)
        result, _ = play_it(found, drawn, Hand(found, drawn, out(), input, Path(pictures)), seed, runtime)
    out().print(f"\n{result.status}, score {result.score:g}" + (f": {result.detail}" if result.detail else ""), markup=False)


@task.command()
def serve(
    family: FamilyName,
    form: Annotated[
        str, typer.Option("--as", help="openenv (HTTP and WebSocket, MCP at /mcp) or mcp (over this program's pipes).")
    ] = "openenv",
    level: Annotated[int, typer.Option("--level", min=0, help="Of episodes that ask for none.")] = 0,
    split: Annotated[str, typer.Option("--split", help="Of episodes that ask for none.")] = "train",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of episodes that ask for none.")] = 0,
    port: Annotated[int, typer.Option("--port", min=1, max=65535)] = 8000,
) -> None:
    """Serve a family's worlds on this machine to other programs, as an OpenEnv environment or as an MCP server."""
    from ninefold.agent.env import family as find
    from ninefold.serve.episodes import Episodes

    if form not in FORMS:
        raise UserError(f"--as {form}: there are {', '.join(FORMS)}")
    found = find(family)
    served = Episodes(family=found, split=check_task(found, split, level), level=level, seed=seed)
    if form == "mcp":
        from ninefold.serve.hosts import EpisodeHost
        from ninefold.serve.mcp import over_pipes

        served.start()
        over_pipes(EpisodeHost(served))
        served.close()
        return
    import uvicorn

    from ninefold.serve.openenv import openenv_app

    check_port("127.0.0.1", port)
    err().print(f"{family} at http://127.0.0.1:{port} (Ctrl-C ends it)", style="bold", soft_wrap=True)
    uvicorn.run(openenv_app(served), host="127.0.0.1", port=port, log_level="warning")


@hack.command("run")
def run_hacks(
    family: FamilyName,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Tasks of each level that the hacks are played on.")] = 2,
    mutants: Annotated[int, typer.Option("--mutants", min=0, help="Wrong solutions made of gold, over all levels.")] = 200,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Which tasks and mutants.")] = 0,
    level: Annotated[int | None, typer.Option("--level", min=0, help="Only this level.")] = None,
    as_json: AsJson = False,
) -> None:
    """Play the catalogue of public reward hacks, the family's own, and mutants of gold; print the attack-success rate.

    A mutant that passes and comes to what gold comes to on fifty further seeds is equivalent, and listed. Exit status 1 where
    the rate is above 0, 3 where a level was skipped because this machine lacks something.
    """
    from ninefold.agent.env import family as find
    from ninefold.agent.env.hack import attack
    from ninefold.agent.env.play import runtime_for

    found = find(family)
    levels = _levels(found, level)
    with runtime_for(found) as runtime, err().status(f"attacking {found.name}") as status:
        report = attack(found, levels=levels, seeds=seeds, mutants=mutants, seed=seed, runtime=runtime, progress=status.update)
    if as_json:
        print_json(_record(report))
    else:
        _print(report)
    _leave(broken=bool(report.successes), skipped=bool(report.skipped))


def _levels(family: Family, level: int | None) -> Sequence[int]:
    """The level asked for, or all. Raises UserError where there is none such."""
    if level is None:
        return range(family.levels)
    check_level(family, level)
    return [level]


def check_task(family: Family, split: str, level: int) -> Split:
    """The split of that name. Raises UserError where there is none, or the family has no such level."""
    if split not in SPLITS:
        raise UserError(f"--split {split}: splits are {', '.join(SPLITS)}")
    check_level(family, level)
    return cast(Split, split)


def check_level(family: Family, level: int) -> None:
    """Raise UserError where the family has no such level."""
    if level >= family.levels:
        raise UserError(f"--level {level}: levels of {family.name} are 0 to {family.levels - 1}")


_MARKS = {"kept": "[green]✓[/green]", "broken": "[red]✗[/red]", "skipped": "[yellow]–[/yellow]"}


def _tell_skipped(levels: Mapping[int, str]) -> None:
    for reason in dict.fromkeys(levels.values()):
        where = ", ".join(str(level) for level, why in levels.items() if why == reason)
        out().print(f"skipped, level {where}: {reason}", style="yellow", soft_wrap=True, markup=False)


def _leave(*, broken: bool, skipped: bool) -> None:
    """End with status 1 where something is to mend, or else with 3 where something was skipped."""
    if broken or skipped:
        raise typer.Exit(1 if broken else LEFT_OUT)


def _record(report: Report) -> dict[str, object]:
    return {
        "family": report.family,
        "status": report.status,
        "skipped": report.skipped,
        "attacks": {"played": report.attacks, "kinds": report.kinds},
        "mutants": {"made": report.mutants, "failed": report.failed, "equivalent": [asdict(a) for a in report.equivalent]},
        "invalid": report.invalid,
        "successes": [asdict(attempt) for attempt in report.successes],
        "attack_success_rate": report.rate if report.attacks + report.mutants else None,
    }


def _print(report: Report) -> None:
    console = out()
    console.print(f"{report.family}: {report.attacks} attacks of {len(report.kinds)} kinds, {report.mutants} mutants of gold")
    passed = report.mutants - report.failed - len(report.equivalent)
    console.print(f"mutants: {report.failed} failed, {len(report.equivalent)} equivalent, {passed} successful")
    if report.invalid:
        console.print(f"{report.invalid} attempts could not be judged", style="yellow")
    for attempt in report.equivalent:
        _tell(attempt, "equivalent", "dim")
    for attempt in report.successes:
        _tell(attempt, "SUCCESS", "red")
    if report.attacks + report.mutants:
        console.print(f"attack-success rate {report.rate:.2%}", style="red" if report.successes else "green")
    _tell_skipped(report.skipped)


def _tell(attempt: Attempt, kind: str, style: str) -> None:
    verdict = f" ({attempt.result.status}, {attempt.result.score:g})" if kind == "SUCCESS" else ""
    out().print(f"  {kind}: {attempt.task}: {attempt.what}{verdict}", style=style, soft_wrap=True, markup=False)
    if kind == "SUCCESS":
        for move in attempt.moves:
            out().print(f"    {move}", soft_wrap=True, markup=False)

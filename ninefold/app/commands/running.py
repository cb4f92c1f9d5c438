"""`run`, `stage`, `evaluate`, `set`, `recipes`: everything that makes a run go."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table as RichTable

from ninefold.app.console import INTERRUPTED, LEFT_OUT, AsJson, RunName, err, out, print_json
from ninefold.app.journal import Figures, Journal, missing_domains
from ninefold.app.progress import Progress, clock
from ninefold.app.runs import new_run, open_run
from ninefold.app.table import summarize, summary_line, terminal_table, transfer_lines
from ninefold.core.config import parse_value, to_toml
from ninefold.core.errors import UserError
from ninefold.core.store import Run, is_complete, read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ninefold.recipes.config import Recipe

# Commands import the recipes when they need them: PyTorch takes seconds to load, and `--help` should not.


def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A recipe: nano, wide, smol, smoke (see `ninefold recipes`).")],
    run_name: Annotated[
        str, typer.Option("--name", help="Name of the run's folder in runs/; the recipe's name if absent.")
    ] = "",
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a value: rl.steps=10.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="TOML file with values that differ from the recipe's.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Short for --set seed=N.")] = None,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="One process: killed and resumed, the weights end bit-identical.")
    ] = False,
    until: Annotated[str, typer.Option("--until", metavar="STAGE", help="Stop behind this stage.")] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the resolved configuration and its cost; run nothing.")
    ] = False,
) -> None:
    """Run a whole recipe, or go on with a run that was cut off.

    The same command again continues where it was, with the configuration it was started with. Exit status: 0 done, 2 something
    to mend, 3 done without a domain that this machine cannot isolate, 130 interrupted.
    """
    from ninefold.app.configuration import resolve
    from ninefold.recipes.run import check, run_recipe, stages_of
    from ninefold.recipes.whole import recipe

    given = [*(overrides or []), *([f"seed={seed}"] if seed is not None else [])]
    given += ["deterministic=true"] if deterministic else []
    target = new_run(run_name or name)
    resolved = resolve(recipe(name), target, file=config, overrides=given)
    if until and until not in (stages := [stage.name for stage in stages_of(resolved)]):
        raise UserError(f"--until {until}: there is no such stage; there are {', '.join(stages)}")
    if dry_run:
        check(resolved, target)
        print_plan(resolved)
        return
    with followed(target, f"ninefold run {name}" + (f" --name {run_name}" if run_name else "")):
        run_recipe(resolved, target, until=until or None)
    conclude(target)


@contextmanager
def followed(run: Run, again: str, *, redone: bool = False) -> Iterator[None]:
    """Show the run's progress; on Ctrl-C say how to go on, and leave. What is `redone` is begun anew each time."""
    console = err()
    console.print(f"run {run.path}", style="bold")
    try:
        with Progress(run, console):
            yield
    except KeyboardInterrupt:
        kept = (
            f"what was there is unchanged: `{again}` begins anew" if redone else f"nothing is lost: `{again}` goes on from here"
        )
        console.print(f"\ninterrupted; {kept}", style="yellow")
        raise typer.Exit(INTERRUPTED) from None


def conclude(run: Run) -> None:
    """Write the report, print the table and where the report is; the exit status says whether a domain is missing."""
    from ninefold.app.configuration import stored_recipe
    from ninefold.app.report.build import write_report
    from ninefold.recipes.kit import Kit

    write_report(run)
    print_table(run)
    out().print(f"report: {run.report}", soft_wrap=True)
    left_out = Kit(recipe=stored_recipe(run), run=run).left_out
    for domain, reason in left_out.items():
        err().print(f"{domain} was left out: {reason}", style="yellow", soft_wrap=True)
    if left_out:
        raise typer.Exit(LEFT_OUT)


def print_table(run: Run, figures: Figures | None = None, *, as_json: bool = False) -> None:
    """The 3×3 table, if the run was evaluated; of other figures where they are given."""
    journal = Journal.of(run)
    figures = figures or Figures.of(run, journal)
    table = figures.table
    if as_json:
        summary = summarize(table)
        recovery = summary and summary.recovery
        print_json(
            {
                "run": run.name,
                "table": table,
                "families": figures.families,
                "recovery": recovery,
                "transfer": figures.transfer,
                "fell_back": sorted(journal.fell_back),
            }
        )
    elif table:
        left_out = missing_domains(journal, table)
        out().print(terminal_table(table, families=figures.families, fell_back=journal.fell_back, left_out=left_out))
        for line in (summary_line(table), *transfer_lines(figures.transfer)):
            out().print(line)


def print_plan(recipe: Recipe) -> None:
    """The resolved configuration as TOML, the cost estimate as comments below it."""
    from ninefold.app.estimate import measure_speed, work_of

    typer.echo(to_toml(recipe))
    if recipe.released is not None:
        typer.echo("# What it will cost is not estimated for released weights; docs/LOG.md has what runs took.")
        return
    speed = measure_speed(recipe)
    typer.echo(
        f"# This machine: {1 / speed.sampled:,.0f} tokens sampled per CPU-second and process, "
        f"{1 / (speed.trained + speed.step / 1000):,.0f} trained in steps of 1,000."
    )
    total = 0.0
    for stage, work in work_of(recipe).items():
        seconds = speed.seconds(work)
        total += seconds
        typer.echo(f"# {stage:<14} {work.trained:>12,.0f} trained {work.sampled:>12,.0f} sampled {seconds:>8,.0f} CPU-s")
    typer.echo(f"# total          {total:,.0f} CPU-s, about {clock(total / recipe.processes)} on {recipe.processes} idle cores")


def stage(
    run: RunName,
    stage: Annotated[str, typer.Argument(metavar="STAGE", help="Name of the stage, e.g. sft, rl, mopd.")],
    cell: Annotated[str, typer.Option("--cell", metavar="DOMAIN/EFFORT", help="Only this cell of stage rl.")] = "",
    source: Annotated[str, typer.Option("--from", metavar="RUN", help="Take the stages before it from this run.")] = "",
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the recipe.")
    ] = None,
    redo: Annotated[bool, typer.Option("--redo", help="Drop what the stage left earlier and begin it anew.")] = False,
) -> None:
    """Run one stage, or one cell, on the checkpoints that stand before it.

    With --from a new run begins with another run's corpus, tokenizer and models, and a cell with those that it goes on from:
    `ninefold stage trial rl --cell coding/low --from nano --set rl.steps=60`.
    """
    from ninefold.app.configuration import resolve, stored_recipe
    from ninefold.app.single import borrow, run_stage

    if source:
        origin = open_run(source)
        target = new_run(run)
        recipe = resolve(stored_recipe(origin), target, overrides=overrides or ())
        borrow(origin, target, recipe, before=stage, cell=cell)
    else:
        target = open_run(run)
        recipe = resolve(stored_recipe(target), target, overrides=overrides or ())
    again = f"ninefold stage {run} {stage}" + f" --cell {cell}" * bool(cell) + " --redo" * redo
    with followed(target, again, redone=redo):
        run_stage(recipe, target, stage, cell=cell, redo=redo)


def evaluate(
    run: RunName,
    tasks: Annotated[
        int | None, typer.Option("--tasks", min=1, help="Held-out tasks per cell; the recipe's number if absent.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Which held-out tasks.")] = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate every model of a run on held-out tasks, the same for all, and print the table.

    With another number of tasks or seed than the recipe's the figures stand beside the run's own, which stay as they are.
    """
    from ninefold.app.configuration import stored_recipe
    from ninefold.app.single import evaluate_beside, run_stage

    target = open_run(run)
    recipe = stored_recipe(target)
    changes = {name: value for name, value in (("tasks", tasks), ("seed", seed)) if value is not None}
    asked = recipe.evaluate.model_copy(update=changes)
    again = f"ninefold evaluate {run}" + "".join(f" --{name} {value}" for name, value in changes.items())
    own = asked == recipe.evaluate
    with followed(target, again, redone=own):
        if own:
            run_stage(recipe, target, "evaluate", redo=True)
            figures = None
        else:
            figures = evaluate_beside(recipe.model_copy(update={"evaluate": asked}), target)
    print_table(target, figures, as_json=as_json)


def set_(
    run: RunName,
    values: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE…", help="e.g. tau_b.coding.low=0.6")] = None,
    as_json: AsJson = False,
) -> None:
    """Change a value of a running job; it holds from the next iteration. Without values, show what holds.

    `tau_b.DOMAIN.EFFORT` is how many times b₀ a trajectory of that cell may spend. Rewards follow it; dev scores and the
    evaluation keep the τ that was calibrated, so that figures before and after a change can be compared.
    """
    from ninefold.agent.effort.multipliers import Multipliers

    target = open_run(run)
    stage = target.stage("budgets")
    measured = read_json(stage / "tau.json") if is_complete(stage) else {}
    changed = read_json(target.controls) if target.controls.exists() else {}
    given: dict[str, object] = {}
    for value in values or ():
        key, equals, text = value.partition("=")
        if not equals or not key.startswith("tau_b."):
            raise UserError(f"{value!r}: write KEY=VALUE with a key that can change, e.g. tau_b.coding.low=0.6")
        given[key] = parse_value(text)
    Multipliers().changed(given)
    if given and is_complete(target.stage("rl")):
        err().print("the run's RL is over: nothing will follow these values", style="yellow")
    if given:
        changed |= given
        write_json(target.controls, changed)
        target.log()("control", values=given)
    holds = {f"tau_b.{cell.replace('/', '.')}": tau for cell, tau in measured.items()} | changed
    if as_json:
        print_json(holds)
        return
    for key, value in holds.items():
        typer.echo(f"{key} = {value}" + ("  (set by hand)" if key in changed else ""))
    if not holds:
        typer.echo("nothing is set, and τ is not measured yet (stage budgets)")


def recipes(as_json: AsJson = False) -> None:
    """List the recipes, with what each is for."""
    from ninefold.recipes.whole import RECIPES

    found = {name: (make.__doc__ or "").strip() for name, make in RECIPES.items()}
    if as_json:
        print_json(found)
        return
    shown = RichTable(box=None, show_header=False)
    for name, text in found.items():
        shown.add_row(f"[bold]{name}[/bold]", text)
    out().print(shown)

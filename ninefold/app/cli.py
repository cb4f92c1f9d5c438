"""The command line: `ninefold COMMAND`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ninefold import __version__
from ninefold.app.commands import (
    building,
    exchanging,
    harnessing,
    keeping,
    knowing,
    looking,
    modelling,
    running,
    serving,
    standing,
)
from ninefold.app.console import Commands

SETTINGS = {
    # One thread per process: with more, models this small are an order of magnitude slower.
    "OMP_NUM_THREADS": "1",
    # Worker processes keep freed tensors in the heap instead of returning them to the kernel at every step.
    "MALLOC_MMAP_THRESHOLD_": "8589934592",
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "MALLOC_TOP_PAD_": "268435456",
}

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="From nothing to a small K3-style model whose effort you choose: `ninefold run nano`, then `ninefold chat nano`.",
)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.", is_eager=True)] = False,
) -> None:
    if version:
        typer.echo(f"ninefold {__version__}")
        raise typer.Exit


for command in (
    running.run,
    running.recipes,
    serving.chat,
    serving.serve,
    looking.watch,
    looking.report,
    looking.show,
    running.evaluate,
    running.stage,
    modelling.export,
):
    app.command()(command)
app.command("set")(running.set_)
app.command()(looking.preview)
app.add_typer(keeping.runs, name="runs")
app.add_typer(modelling.model, name="model")
app.add_typer(building.task, name="task")
app.add_typer(building.hack, name="hack")
app.add_typer(standing.world, name="world")
app.add_typer(exchanging.harbor, name="harbor")
app.add_typer(exchanging.verifiers, name="verifiers")
app.add_typer(exchanging.tau2, name="tau2")
app.add_typer(exchanging.kernelbench, name="kernelbench")
app.add_typer(exchanging.mcp, name="mcp")
app.add_typer(harnessing.harness, name="harness")
app.add_typer(knowing.graph, name="graph")
app.command()(knowing.synth)
app.command()(keeping.doctor)


def main() -> None:
    """Entry point of the `ninefold` program."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    app()

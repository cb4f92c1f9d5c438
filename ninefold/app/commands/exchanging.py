"""`harbor`, `verifiers`, `tau2`, `kernelbench`, `mcp`: tasks in the forms of other programs, and theirs as tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from ninefold.app.commands.building import check_task
from ninefold.app.console import Commands, err
from ninefold.app.progress import counted
from ninefold.core.errors import SandboxUnavailable, UserError
from ninefold.core.protocols import Family
from ninefold.core.text import split_words
from ninefold.core.types import Task

harbor = typer.Typer(cls=Commands, no_args_is_help=True, help="Write tasks as Harbor directories, and read them.")
verifiers = typer.Typer(cls=Commands, no_args_is_help=True, help="Write tasks as a package of verifiers, and read tasksets.")
tau2 = typer.Typer(cls=Commands, no_args_is_help=True, help="Read tasks of tau2-bench.")
kernelbench = typer.Typer(cls=Commands, no_args_is_help=True, help="Read problems of KernelBench.")
mcp = typer.Typer(cls=Commands, no_args_is_help=True, help="Ask questions that the tools of an MCP server answer.")

MOST = 100_000
"""Tasks of one export."""
To = Annotated[Path, typer.Option("--to", help="JSONL file of tasks that is written.")]


def _drawn(kind: Family, split: str, level: int, seeds: range) -> Iterator[Task]:
    """A family's tasks, drawn one after the other. Raises UserError at once where there is no such split or level, or where
    there are too many of them."""
    if len(seeds) > MOST:
        again = f"go on with --seed {seeds.start + MOST} in another folder"
        raise UserError(f"--count {len(seeds)}: one export holds {MOST} tasks at most; {again}")
    part = check_task(kind, split, level)
    return (kind.generate(part, level, seed) for seed in seeds)


@harbor.command()
def export(
    name: Annotated[str, typer.Argument(metavar="FAMILY", help="Whose tasks.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Each task gets a folder in it.")],
    level: Annotated[int, typer.Option("--level", min=0)] = 0,
    split: Annotated[str, typer.Option("--split", help="train, dev or heldout.")] = "train",
    count: Annotated[int, typer.Option("--count", min=1, help=f"Tasks, of seeds from --seed on; {MOST} at most.")] = 1,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
) -> None:
    """Write tasks of a family with verifier and solution; run them with `harbor run -p DIR`, see their README.md."""
    from ninefold.agent.env import family
    from ninefold.data.tasks.harbor.export import export_task
    from ninefold.sandbox.runtime import open_runtime

    kind = family(name)
    tasks = _drawn(kind, split, level, range(seed, seed + count))
    runtime = open_runtime("namespace") if kind.isolated else None
    try:
        for task in tasks:
            target = folder / task.id.replace("/", "-")
            export_task(task, target, runtime=runtime)
            typer.echo(target)
    except SandboxUnavailable as error:
        raise UserError(f"{name} runs code to make its solution: {error}") from None
    finally:
        if runtime is not None:
            runtime.close()


@harbor.command("import")
def import_(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR…", help="Task directories.")],
    to: Annotated[Path, typer.Option("--to", help="JSONL file of tasks that is written.")],
) -> None:
    """Read task directories into a file of tasks; those that need a container, a network or a GPU are told and left out."""
    from ninefold.data.tasks.harbor.load import import_task
    from ninefold.data.tasks.store import write_tasks

    tasks = []
    for folder in folders:
        try:
            tasks.append(import_task(folder))
        except UserError as error:
            err().print(f"left out: {error}")
    if not tasks:
        raise UserError("none of these directories could be imported")
    write_tasks(to, tasks)
    typer.echo(f"{len(tasks)} of {len(folders)} tasks in {to}")


@verifiers.command("export")
def export_package(
    name: Annotated[str, typer.Argument(metavar="FAMILY", help="Whose tasks.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Of the package.")],
    level: Annotated[int, typer.Option("--level", min=0)] = 0,
    split: Annotated[str, typer.Option("--split", help="train, dev or heldout.")] = "train",
    count: Annotated[int, typer.Option("--count", min=1, help=f"Tasks, of seeds from --seed on; {MOST} at most.")] = 100,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
) -> None:
    """Write tasks of a family as a package that verifiers loads; its README.md says how to run it."""
    from ninefold.agent.env import family
    from ninefold.data.tasks.verifiers.export import export_package as write

    tasks = _drawn(family(name), split, level, range(seed, seed + count))
    package = write(counted("tasks", tasks, count, err()), folder)
    typer.echo(f"{package}: {count} tasks in {folder}")


@verifiers.command("import")
def import_taskset(
    taskset: Annotated[str, typer.Argument(metavar="TASKSET", help="As verifiers knows it.")],
    to: To,
    options: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=JSON", help="Of the taskset's config.")] = None,
    count: Annotated[int, typer.Option("--count", min=1, help="At most so many tasks, the first.")] = 100,
) -> None:
    """Read a taskset into a file of tasks, in the interpreter that NINEFOLD_VERIFIERS_PYTHON names."""
    from ninefold.data.tasks.verifiers.load import import_taskset as read

    _write(to, read(taskset, _options(options or ()), most=count))


@tau2.command("import")
def import_domain(
    domain: Annotated[str, typer.Argument(metavar="DOMAIN", help="mock, retail, …")],
    to: To,
    count: Annotated[int | None, typer.Option("--count", min=1, help="Only so many tasks, the first.")] = None,
) -> None:
    """Read a domain of tau2-bench into a file of tasks, from the checkout that NINEFOLD_TAU2 names."""
    from ninefold.data.tasks.tau2 import import_domain as read

    tasks, left_out = read(domain, count)
    _tell(left_out)
    _write(to, tasks)


@kernelbench.command("ls")
def list_problems(level: Annotated[int, typer.Argument(metavar="LEVEL", help="1 to 4.")]) -> None:
    """List the problems of a level, from the checkout that NINEFOLD_KERNELBENCH names."""
    from ninefold.agent.env.kernelbench.checkout import problems

    for name in problems(level):
        typer.echo(name)


@kernelbench.command("import")
def import_level(
    level: Annotated[int, typer.Argument(metavar="LEVEL", help="1 to 4.")],
    to: To,
    count: Annotated[int | None, typer.Option("--count", min=1, help="Only so many problems, the first.")] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME", help="Number or name; may be given again.")
    ] = None,
) -> None:
    """Read problems of a level into a file of tasks, scaled to a CPU; NINEFOLD_PACKAGES names the folder where torch lies."""
    from ninefold.data.tasks.kernelbench import import_level as read
    from ninefold.sandbox.runtime import open_runtime

    with closing(open_runtime()) as runtime:
        tasks, left_out = read(level, runtime, most=count, only=only or ())
    _tell(left_out)
    _write(to, tasks)


@mcp.command("import")
def import_server(
    server: Annotated[str, typer.Argument(metavar="URL|COMMAND", help="Of the server.")],
    ask: Annotated[str, typer.Option("--ask", help="The question.")],
    answer: Annotated[str, typer.Option("--answer", help="What the right answer is.")],
    to: To,
) -> None:
    """Write a task that offers the tools of a server."""
    from ninefold.data.tasks.mcp import import_server as read

    if not server.strip():
        raise UserError("name the server: a URL, or a command that starts one")
    place = server if server.startswith(("http://", "https://")) else split_words(server)
    _write(to, [read(place, ask, answer)])


@mcp.callback()
def _mcp() -> None:
    """Keeps `import` a command of its own while it is the only one."""


@tau2.callback()
def _tau2() -> None:
    """Keeps `import` a command of its own while it is the only one."""


def _tell(left_out: Sequence[str]) -> None:
    for told in left_out:
        err().print(f"left out: {told}", soft_wrap=True, markup=False)


def _write(to: Path, tasks: Sequence[Task]) -> None:
    from ninefold.data.tasks.store import write_tasks

    if not tasks:
        raise UserError("there is no task to write")
    write_tasks(to, tasks)
    typer.echo(f"{len(tasks)} tasks in {to}")


def _options(given: Sequence[str]) -> dict[str, Any]:
    """NAME=JSON; what is no JSON is text."""
    options: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"--set {text}: write NAME=JSON")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options

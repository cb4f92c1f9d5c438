"""`harbor`: tasks as the directories that Harbor runs, and its directories as tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from ninefold.app.console import Commands, err
from ninefold.core.errors import SandboxUnavailable, UserError
from ninefold.core.types import Split

harbor = typer.Typer(cls=Commands, no_args_is_help=True, help="Write tasks as Harbor directories, and read them.")


@harbor.command()
def export(
    name: Annotated[str, typer.Argument(metavar="FAMILY", help="Whose tasks.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Each task gets a folder in it.")],
    level: Annotated[int, typer.Option("--level", min=0)] = 0,
    split: Annotated[str, typer.Option("--split", help="train, dev or heldout.")] = "train",
    count: Annotated[int, typer.Option("--count", min=1, help="Tasks, of seeds from --seed on.")] = 1,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
) -> None:
    """Write tasks of a family with verifier and solution; run them with `harbor run -p DIR`, see their README.md."""
    from ninefold.agent.env import family
    from ninefold.data.tasks.harbor.export import export_task
    from ninefold.sandbox.runtime import open_runtime

    kind = family(name)
    if split not in get_args(Split):
        raise UserError(f"--split {split}: there are {', '.join(get_args(Split))}")
    if level >= kind.levels:
        raise UserError(f"--level {level}: levels of {name} are 0 to {kind.levels - 1}")
    runtime = open_runtime("namespace") if kind.isolated else None
    try:
        for number in range(seed, seed + count):
            task = kind.generate(cast(Split, split), level, number)
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

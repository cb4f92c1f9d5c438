"""`world`: worlds of tasks that stand by themselves, for other agents and trainers."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ninefold.app.commands.building import FamilyName, check_task
from ninefold.app.commands.serving import LOCAL
from ninefold.app.console import AsJson, Commands, check_port, err, out, print_json
from ninefold.core.errors import UserError

world = typer.Typer(cls=Commands, no_args_is_help=True, help="Stand up the world of a task for other agents and trainers.")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A world's folder, as `world serve` made it.")]


@world.command()
def serve(
    family: FamilyName,
    level: Annotated[int, typer.Option("--level", min=0, help="How hard the task is.")] = 0,
    seed: Annotated[int, typer.Option("--seed", help="Which task.")] = 0,
    split: Annotated[str, typer.Option("--split", help="train, dev, heldout or corpus.")] = "train",
    folder: Annotated[
        Path | None,
        typer.Option("--in", metavar="DIR", help="Where the world is kept; worlds/FAMILY-SPLIT-LEVEL-SEED if absent."),
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535)] = 8100,
    host: Annotated[str, typer.Option("--host", help="Address to listen on; this machine alone if absent.")] = "127.0.0.1",
    token: Annotated[
        str, typer.Option("--token", envvar="NINEFOLD_WORLD_TOKEN", help="Agents must send it; none is asked for if absent.")
    ] = "",
    owner_token: Annotated[
        str,
        typer.Option(
            "--owner-token",
            envvar="NINEFOLD_OWNER_TOKEN",
            help="For /verdict and /snapshot, which nobody can reach if absent.",
        ),
    ] = "",
) -> None:
    """Serve a task's world over HTTP and MCP. It goes on where it was left, even after a kill.

    Agents: GET /task, POST /tools/NAME with the arguments as JSON, POST /answer; or MCP (streamable HTTP) at /mcp.
    The owner: GET /verdict, GET and PUT /snapshot. GET /docs describes all of them.
    """
    import uvicorn

    from ninefold.agent.env import family as find
    from ninefold.agent.env.play import runtime_for
    from ninefold.serve.stored import StoredWorld
    from ninefold.serve.world import create_world_app

    if host not in LOCAL and not token:
        raise UserError(f"--host {host} opens the world to others: give it a --token (or NINEFOLD_WORLD_TOKEN)")
    if token and token == owner_token:
        raise UserError("--token and --owner-token are the same: an agent could judge itself; give two")
    found = find(family)
    part = check_task(found, split, level)
    check_port(host, port)
    task = found.generate(part, level, seed)
    place = folder or Path("worlds") / task.id.replace("/", "-")
    with runtime_for(found) as runtime:
        stored = StoredWorld.begin(place, found, task, runtime)
        try:
            where = f"http://{host}:{port}"
            made = f", {stored.calls} calls made" if stored.calls else ""
            err().print(f"{task.id} in {place}{made}: {where}, MCP at {where}/mcp (Ctrl-C ends it)", soft_wrap=True)
            uvicorn.run(
                create_world_app(stored, token=token, owner_token=owner_token), host=host, port=port, log_level="warning"
            )
        finally:
            stored.close()


@world.command()
def judge(folder: Folder, as_json: AsJson = False) -> None:
    """Say what a world that nobody serves has come to; exit status 1 where that is no pass."""
    from ninefold.agent.env import family as find
    from ninefold.agent.env.play import runtime_for
    from ninefold.serve.stored import StoredWorld, read_task

    found = find(read_task(folder).family)
    with runtime_for(found) as runtime:
        stored = StoredWorld.open(folder, found, runtime)
        try:
            result = stored.verdict()
        finally:
            stored.close()
    if as_json:
        print_json({"task": stored.task.id, "calls": stored.calls, **asdict(result)})
    else:
        detail = f": {result.detail}" if result.detail else ""
        out().print(f"{stored.task.id}: {result.status}, score {result.score:g}{detail}", soft_wrap=True, markup=False)
    if result.status != "pass":
        raise typer.Exit(1)

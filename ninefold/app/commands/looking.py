"""`report`, `watch`, `show`, `preview`: what a run did, and what it would learn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table as RichTable
from rich.text import Text

from ninefold.app.console import AsJson, RunName, check_port, err, out, print_json
from ninefold.app.runs import open_run
from ninefold.chat.tokenizer import Tokenizer
from ninefold.core.errors import UserError
from ninefold.core.store import Run


def report(run: RunName) -> None:
    """Write report.html anew from what the run has so far."""
    from ninefold.app.report.build import write_report

    target = open_run(run)
    write_report(target)
    typer.echo(target.report)


def watch(
    run: RunName,
    port: Annotated[int, typer.Option("--port", min=0, max=65535)] = 8765,
    host: Annotated[str, typer.Option("--host", help="Address to listen on; this machine alone if absent.")] = "127.0.0.1",
) -> None:
    """Serve the report of a run while it goes on; the page follows by itself."""
    import uvicorn

    from ninefold.app.watch import create_app

    target = open_run(run)
    check_port(host, port)
    err().print(f"watching {target.path} at http://{host}:{port} (Ctrl-C ends it)", style="bold", soft_wrap=True)
    uvicorn.run(create_app(target), host=host, port=port, log_level="warning")


def show(
    run: RunName,
    what: Annotated[str, typer.Argument(metavar="trajectory", help="What to show: trajectory.")],
    id: Annotated[str, typer.Argument(metavar="[ID]", help="Which one; without it they are listed.")] = "",
    tokens: Annotated[bool, typer.Option("--tokens/--no-tokens", help="Every token, with masks and versions.")] = True,
    as_json: AsJson = False,
    atif: Annotated[bool, typer.Option("--atif", help="Print it in the interchange format ATIF.")] = False,
) -> None:
    """Show what a run stored, turn by turn and token by token."""
    from ninefold.app.transcript import list_trajectories, print_trajectory
    from ninefold.core.packed import trajectory_record
    from ninefold.rollout.atif import to_atif
    from ninefold.rollout.store import find_trajectory

    if what != "trajectory":
        raise UserError(f"there is no {what!r} to show; try `ninefold show {run} trajectory`")
    target = open_run(run)
    folder = target.path / "trajectories"
    if not id:
        listed = list_trajectories(folder)
        if as_json:
            print_json(listed)
        else:
            out().print(_grid(listed))
        return
    trajectory = find_trajectory(folder, id)
    if atif:
        print_json(to_atif(trajectory))
    elif as_json:
        record, arrays = trajectory_record(trajectory)
        print_json({**record, **{name: values.tolist() for name, values in arrays.items()}})
    else:
        print_trajectory(trajectory, tokenizer_of(target), out(), tokens=tokens)


def _grid(rows: list[dict[str, object]]) -> RichTable:
    grid = RichTable(box=None)
    for name in rows[0] if rows else ("no trajectories are stored yet",):
        grid.add_column(name)
    for row in rows:
        grid.add_row(*map(str, row.values()))
    return grid


def preview(
    file: Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="Conversations: messages, and perhaps tools and effort.")],
    run: Annotated[str, typer.Option("--run", metavar="RUN", help="Whose tokenizer; without it text is split by bytes.")] = "",
    limit: Annotated[int, typer.Option("--limit", min=0, help="Conversations to print.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Check your own SFT data line by line, and see on which tokens a model would learn, before any training."""
    from ninefold.app.transcript import learned_look, masked_text
    from ninefold.chat.xtml import Xtml
    from ninefold.data.conversations import bytewise, read_conversations

    chat = Xtml(tokenizer_of(open_run(run))) if run else bytewise()
    conversations = read_conversations(file, chat)
    segments = [segment for conversation in conversations for segment in conversation.segments]
    longest = max(sum(len(segment.ids) for segment in conversation.segments) for conversation in conversations)
    figures = {
        "conversations": len(conversations),
        "tokens": sum(len(segment.ids) for segment in segments),
        "learned": sum(int(segment.loss_mask.sum()) for segment in segments),
        "longest": longest,
    }
    if as_json:
        print_json(figures)
        return
    console = out()
    for conversation in conversations[:limit]:
        console.print(Text(f"line {conversation.line}", style="bold"))
        for segment in conversation.segments:
            console.print(masked_text(segment, chat.tokenizer, console), end="", soft_wrap=True)
        console.print("\n")
    counts = "{conversations} conversations, {tokens} tokens, {learned} learned ({look}), longest {longest}"
    console.print(counts.format(**figures, look=learned_look(console)), markup=False)


def tokenizer_of(run: Run) -> Tokenizer:
    """The run's tokenizer. Raises UserError before it is trained."""
    path = run.stage("corpus") / "tokenizer.json"
    if not path.exists():
        raise UserError(f"{run.path} has no tokenizer yet: let its stage corpus finish first")
    return Tokenizer.load(path)

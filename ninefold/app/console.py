"""How the command line speaks: results on stdout, everything else on stderr, errors without tracebacks."""

from __future__ import annotations

import json
import socket
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from ninefold.core.errors import NinefoldError, UserError

LEFT_OUT = 3
"""Exit status of what had to leave out something that this machine lacks: a run a domain, a check a level."""
INTERRUPTED = 130
PIPED_WIDTH = 140

RunName = Annotated[str, typer.Argument(metavar="RUN", help="Path of a run, or its name in runs/.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


class Commands(TyperGroup):
    """A group whose commands end with a message and a status, not a traceback, where an error of ours or of the machine's
    reaches it: 2 for what the user can mend."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except NinefoldError as error:
            typer.secho(f"error: {error}", err=True, fg="red")
            raise typer.Exit(2 if isinstance(error, UserError) else 1) from None
        except BrokenPipeError:
            raise
        except OSError as error:  # what the machine refuses: permissions, a full disk, a folder where a file is needed
            where = f": {error.filename}" if error.filename is not None else ""
            typer.secho(f"error: {error.strerror or error}{where}", err=True, fg="red")
            raise typer.Exit(1) from None


def out() -> Console:
    """For results; tables keep their width where nobody looks at them."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)


def err() -> Console:
    """For progress and remarks."""
    return Console(stderr=True, highlight=False)


def check_port(host: str, port: int) -> None:
    """Raise UserError where nobody can listen there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise UserError(
                f"cannot listen at {host}:{port} ({error.strerror or error}); choose another --port or --host"
            ) from None


def print_json(value: Any) -> None:
    """`value` as JSON on stdout."""
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False))

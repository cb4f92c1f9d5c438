"""`model inspect` and `export`: what a model holds and costs, and a folder of it for other programs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table as RichTable

from ninefold.app.console import AsJson, Commands, RunName, out, print_json
from ninefold.app.runs import open_run

model = typer.Typer(cls=Commands, no_args_is_help=True, help="Look at models.")


@model.callback()
def _group() -> None:
    """Keeps `inspect` a command of its own while it is the only one."""


@model.command()
def inspect(
    which: Annotated[str, typer.Argument(metavar="PRESET|DIR", help="A preset's name, or a folder with a config.json.")],
    context: Annotated[int, typer.Option("--context", min=0, help="Tokens behind the one whose FLOPs are counted.")] = 4096,
    as_json: AsJson = False,
) -> None:
    """Count parameters, memory, caches and FLOPs without allocating anything."""
    from ninefold.model.checkpoint import load_config
    from ninefold.model.inspect import inspect as examine
    from ninefold.model.presets import preset

    config = load_config(Path(which)) if Path(which).is_dir() else preset(which)
    found = examine(config)
    if as_json:
        print_json({**asdict(found), "context": context, "flops_at_context": found.flops(context)})
        return
    table = RichTable("part", "parameters", "active per token")
    for name, part in found.parts.items():
        table.add_row(name, count(part.total), count(part.active) if part.active else "")
    table.add_section()
    table.add_row("text, without MTP layer and vision", count(found.total), count(found.active))
    out().print(table)
    facts = {
        "layers": f"{found.layers}: {found.kda_layers} KDA, {found.mla_layers} {'Gated ' * config.mla_use_output_gate}MLA",
        "AttnRes": f"{found.attnres_sources} sources" if config.attn_res_block_size else "none",
        "weights": f"{size(found.bytes_bf16)} in bf16, {size(found.bytes_released)} with routed experts in MXFP4",
        "cache": f"{size(found.kv_bytes_per_token)} a token, {size(found.state_bytes_per_sequence)} a sequence",
        "FLOPs": f"{count(found.flops(context))} a token behind {context:,} others, forward",
    }
    for name, fact in facts.items():
        out().print(f"{name + ':':<9}{fact}", soft_wrap=True)


def export(
    run: RunName,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")],
    stage: Annotated[
        str, typer.Option("--stage", help="Whose model: mopd, sft, rl/coding/low, …; the final one if absent.")
    ] = "",
    packed: Annotated[bool, typer.Option("--packed", help="Routed experts in MXFP4; computes the same.")] = False,
) -> None:
    """Write a run's model as a Hugging Face folder: weights, tokenizer, chat template, model card."""
    from ninefold.app.export import export as write

    write(open_run(run), folder, stage=stage, packed=packed)
    typer.echo(folder)


def count(n: int) -> str:
    """In millions or billions where there are so many."""
    for unit, scale in (("B", 1e9), ("M", 1e6)):
        if n >= scale:
            return f"{n / scale:,.2f}{unit}"
    return f"{n:,}"


def size(n: int) -> str:
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= scale:
            return f"{n / scale:.2f} {unit}"
    return f"{n} B"

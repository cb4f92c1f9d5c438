"""`graph` and `synth`: grow a knowledge graph from documents, look at it, and make tasks of it."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table as RichTable

from ninefold.app.console import AsJson, Commands, err, out, print_json
from ninefold.app.progress import counting
from ninefold.core.errors import UserError
from ninefold.core.store import check_ours, is_complete, write_atomic

if TYPE_CHECKING:
    from ninefold.data.synth.graph import Graph
    from ninefold.data.synth.grow import Growth
    from ninefold.data.synth.library import Library

graph = typer.Typer(cls=Commands, no_args_is_help=True, help="Grow a knowledge graph from documents, and look at it.")

GraphName = Annotated[str, typer.Argument(metavar="GRAPH", help="Path of a graph's folder, or its name in runs/graphs.")]
Overrides = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one key of the configuration.")]
ROOT = Path("runs", "graphs")
LISTED = 20
"""Refusals printed without --json."""


@graph.command()
def grow(name: GraphName, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Grow a graph, or go on where it stopped; further processes may help."""
    from ninefold.core.config import configured, to_toml
    from ninefold.data.synth.grow import Growth, grow, proposer_of

    folder = folder_of(name)
    kept = folder / "growth.toml"
    check_ours(folder, (kept.name, "graph.sqlite", "documents/COMPLETE"), "give the graph another name or folder")
    config = configured(Growth(), file=kept if kept.exists() else None, overrides=overrides or ())
    library = _library(folder, config)
    write_atomic(kept, to_toml(config))
    with closing(_graph(folder, new=True)) as graph, counting("nodes", err()) as bar:
        task = bar.add_task("", total=config.nodes, completed=len(graph))
        grow(graph, library, proposer_of(config), config, lambda known: bar.update(task, completed=known))
    stats(name, as_json)


@graph.command()
def stats(name: GraphName, as_json: AsJson = False) -> None:
    """Count nodes, edges, decisions and orphans, by state, domain and depth."""
    with closing(_graph(folder_of(name))) as graph:
        nodes, edges = graph.nodes(), graph.edges()
        decisions = Counter(decision for _, _, decision in graph.decisions())
        figures: dict[str, Any] = {
            "nodes": len(nodes),
            "edges": len(edges),
            "several parents": sum(len(graph.coarser(node.id)) > 1 for node in nodes),
            "orphans": sum(node.depth > 0 and not graph.coarser(node.id) for node in nodes),
            "digest": graph.digest,
            "state": graph.states(),
            "domain": dict(Counter(node.domain for node in nodes)),
            "depth": dict(sorted(Counter(node.depth for node in nodes).items())),
            "decisions": dict(decisions),
        }
    if as_json:
        print_json(figures)
        return
    grid = RichTable(box=None, show_header=False)
    for key, value in figures.items():
        shown = "  ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
        grid.add_row(key, shown)
    out().print(grid)


@graph.command()
def show(
    name: GraphName,
    concept: Annotated[str, typer.Argument(metavar="CONCEPT", help="Name or alias of a node.")],
    as_json: AsJson = False,
) -> None:
    """Show a concept: names, definition, evidence, and what is coarser and finer."""
    with closing(_graph(folder_of(name))) as graph:
        id = graph.find(concept)
        if id is None:
            raise UserError(f"{graph.path} has no concept {concept!r}")
        node = graph.node(id)
        record = {
            "name": node.name,
            "aliases": list(node.aliases),
            "definition": node.definition,
            "evidence": [f"{e.url} [{e.start}:{e.end}] sha256 {e.sha256[:12]}" for e in node.evidence],
            "domain": node.domain,
            "depth": node.depth,
            "state": node.state,
            "provenance": node.provenance,
            "hash": node.hash,
            "coarser": [graph.node(other).name for other in graph.coarser(id)],
            "finer": [graph.node(other).name for other in graph.finer(id)],
        }
    if as_json:
        print_json(record)
        return
    grid = RichTable(box=None, show_header=False)
    for key, value in record.items():
        grid.add_row(key, "\n".join(value) if isinstance(value, list) else str(value))
    out().print(grid)


def synth(
    name: GraphName,
    overrides: Overrides = None,
    rejected: Annotated[bool, typer.Option("--rejected", help="List what the gates refused, and make nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make tasks of a graph as Harbor directories, or go on where it stopped."""
    from ninefold.core.config import configured
    from ninefold.data.synth.gates import heldout
    from ninefold.data.synth.grow import Growth
    from ninefold.data.synth.synthesise import Synthesis, read_journal, synthesise
    from ninefold.data.synth.target import deviation
    from ninefold.sandbox.runtime import open_runtime

    folder = folder_of(name)
    growth, config = configured(Growth(), file=folder / "growth.toml"), configured(Synthesis(), overrides=overrides or ())
    if rejected:
        refused = [attempt for attempt in read_journal(folder / "synth") if attempt.task is None]
        if as_json:
            print_json([[*attempt.cell, list(attempt.nodes), attempt.gate, attempt.reason] for attempt in refused])
            return
        grid = RichTable("gate", "reason", "concepts", box=None)
        for attempt in refused[-LISTED:]:
            grid.add_row(attempt.gate, attempt.reason, "; ".join(attempt.nodes))
        out().print(grid)
        return
    with closing(_graph(folder)) as graph, closing(open_runtime()) as runtime, counting("tasks", err()) as bar:
        runtime.check()
        task = bar.add_task("", total=config.tasks)
        attempts = synthesise(
            graph,
            _library(folder, growth),
            growth.fields,
            folder / "synth",
            config,
            runtime,
            heldout(_heldout_texts()),
            lambda made, tried: bar.update(task, completed=made, description=f"{tried} tried"),
        )
    made = Counter(attempt.cell for attempt in attempts if attempt.task)
    gates = Counter(attempt.gate for attempt in attempts if attempt.gate)
    off = deviation(made, config.target)
    figures = {"tasks": made.total(), "attempts": len(attempts), "refused": dict(gates), "points off target": off}
    if as_json:
        print_json(figures)
        return
    grid = RichTable("", "", "points off target", box=None)
    for axis, values in off.items():
        for value, points in values.items():
            grid.add_row(axis, value, f"{points:+.1f}")
    out().print(grid)
    out().print(f"{made.total()} tasks of {len(attempts)} attempts in {folder / 'synth' / 'tasks'}; refused: {dict(gates)}")


def _heldout_texts() -> list[str]:
    """What held-out tasks of the families say, a sample of each level."""
    from ninefold.agent.env import families

    return [
        family.generate("heldout", level, seed).instruction
        for family in families().values()
        for level in range(family.levels)
        for seed in range(HELDOUT)
    ]


HELDOUT = 16
"""Held-out tasks of each family and level that no synthesised one may repeat."""


def folder_of(name: str) -> Path:
    """A path as given, or a name in runs/graphs."""
    return Path(name) if "/" in name else ROOT / name


def _graph(folder: Path, *, new: bool = False) -> Graph:
    from ninefold.data.synth.graph import Graph

    path = folder / "graph.sqlite"
    if not new and not path.exists():
        raise UserError(f"there is no graph at {folder}; `ninefold graph grow {folder.name}` makes one")
    return Graph(path)


def _library(folder: Path, config: Growth) -> Library:
    """The graph's own documents, which are read from the machine once."""
    from ninefold.data.synth.library import Library, read

    documents = folder / "documents"
    if not is_complete(documents):
        err().print("reading documents")
        read(config.sources).save(documents)
    return Library.load(documents)

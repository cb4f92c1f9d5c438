"""`harness ls | show | diff | sample`: the harnesses that agents are trained under."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from rich.table import Table as RichTable

from ninefold.agent.harness.compose import AnyHarness
from ninefold.agent.harness.executor import OPERATIONS
from ninefold.agent.harness.presets import names
from ninefold.agent.harness.sampler import HarnessSplit, Sampler, compositions, harness_of
from ninefold.agent.harness.whitebox import WhiteBox
from ninefold.app.console import AsJson, Commands, out, print_json
from ninefold.core.errors import UserError
from ninefold.core.types import hash_of

harness = typer.Typer(cls=Commands, no_args_is_help=True, help="Look at harnesses, and draw new ones.")

_NAME = "A preset, or tools+prompt+context+rules of public ones; /nano for small contexts."


@harness.command("ls")
def ls(as_json: AsJson = False) -> None:
    """List the presets."""
    rows = [_facts(harness_of(name)) for name in names()]
    splits = {split: len(compositions(split)) for split in ("train", "dev", "heldout")}
    if as_json:
        print_json({"harnesses": rows, "compositions": splits})
        return
    grid = RichTable("name", "version", "tools over every operation", "hash", box=None)
    for row in rows:
        grid.add_row(row["name"], row["version"], " ".join(row["tools"]), row["hash"][:12])
    out().print(grid)
    out().print(f"\ncompositions of public ones: {', '.join(f'{count} {split}' for split, count in splits.items())}")


@harness.command()
def show(name: Annotated[str, typer.Argument(metavar="NAME", help=_NAME)], as_json: AsJson = False) -> None:
    """Show one: its tools, prompt, context policy and rules."""
    found = harness_of(name)
    if as_json:
        print_json({"name": name, "hash": hash_of(found.composition), "composition": found.composition})
        return
    console = out()
    tools = RichTable("tool", "operation", "parameters (? may be left out)", box=None)
    operation_of = {view.name: view.operation for view in found.toolset.views} if isinstance(found, WhiteBox) else {}
    for schema in found.schemas(tuple(OPERATIONS.values())):
        function = schema["function"]
        shape = function["parameters"]
        parameters = [f"{p}{'' if p in shape['required'] else '?'}" for p in shape["properties"]]
        tools.add_row(function["name"], operation_of.get(function["name"], ""), ", ".join(parameters))
    console.print(tools)
    for path, value in _flat({key: found.composition.get(key, {}) for key in ("prompt", "context", "rules", "stop")}):
        console.print(f"{path}: {value}", markup=False, soft_wrap=True)
    console.print(f"hash: {hash_of(found.composition)}")


@harness.command()
def diff(
    one: Annotated[str, typer.Argument(metavar="NAME", help=_NAME)],
    other: Annotated[str, typer.Argument(metavar="NAME", help=_NAME)],
    as_json: AsJson = False,
) -> None:
    """Show where two differ."""
    ours, theirs = (dict(_flat(_keyed(harness_of(name).composition))) for name in (one, other))
    paths = [path for path in dict.fromkeys([*ours, *theirs]) if ours.get(path) != theirs.get(path)]
    rows = [{"path": path, one: ours.get(path), other: theirs.get(path)} for path in paths]
    if as_json:
        print_json({"differences": rows})
        return
    grid = RichTable("path", one, other, box=None)
    for path in paths:
        grid.add_row(path, *("" if side.get(path) is None else str(side[path]) for side in (ours, theirs)))
    out().print(grid)


@harness.command("sample")
def sample(
    count: Annotated[int, typer.Option("--count", min=1, help="How many groups.")] = 5,
    seed: Annotated[int, typer.Option("--seed", help="Of the draw.")] = 0,
    split: Annotated[str, typer.Option("--split", help="train, dev or heldout.")] = "train",
    nano: Annotated[bool, typer.Option("--nano/--full", help="Modules for small contexts, or whole ones.")] = True,
    without: Annotated[list[str] | None, typer.Option("--without", help="A public harness of which nothing is taken.")] = None,
    as_json: AsJson = False,
) -> None:
    """Draw compositions as a run would, a group each."""
    sampler = Sampler(seed=seed, split=_split(split), nano=nano, without=tuple(without or ()))
    drawn = [_facts(sampler.draw(f"g{number:06d}")) for number in range(count)]
    if as_json:
        print_json({"seed": seed, "split": split, "harnesses": drawn})
        return
    grid = RichTable("tools+prompt+context+rules", "tools over every operation", "hash", box=None)
    for row in drawn:
        grid.add_row(row["name"], " ".join(row["tools"]), row["hash"][:12])
    out().print(grid)


def _split(name: str) -> HarnessSplit:
    if name == "train" or name == "dev" or name == "heldout":
        return name
    raise UserError(f"--split is train, dev or heldout, not {name!r}")


def _facts(found: AnyHarness) -> dict[str, Any]:
    return {
        "name": found.name,
        "version": found.version if isinstance(found, WhiteBox) else "",
        "tools": [schema["function"]["name"] for schema in found.schemas(tuple(OPERATIONS.values()))],
        "hash": hash_of(found.composition),
    }


def _keyed(value: Any) -> Any:
    """Lists of things with names as mappings, so that the order of tools does not count as a difference."""
    if isinstance(value, Mapping):
        return {key: _keyed(item) for key, item in value.items()}
    if isinstance(value, list) and value and all(isinstance(item, Mapping) and "name" in item for item in value):
        return {item["name"]: _keyed(item) for item in value}
    return value


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted path, leaf) of nested mappings."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        for number, item in enumerate(value):
            yield from _flat(item, f"{path}.{item.get('name', number)}")
    else:
        yield path, value

"""One stage, or one cell of it, on its own."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from ninefold.core.config import to_toml
from ninefold.core.errors import UserError
from ninefold.core.store import Run, is_complete, recover_folder, write_atomic, write_folder
from ninefold.core.types import CELLS, Cell
from ninefold.recipes.config import Recipe
from ninefold.recipes.kit import Kit
from ninefold.recipes.rl import train_expert
from ninefold.recipes.run import STAGES, announce, reported


def run_stage(recipe: Recipe, run: Run, name: str, *, cell: str = "", redo: bool = False) -> None:
    """Run the stage `name` on what the stages before it left, with events like a whole run's.

    `cell` (`domain/effort`) is for stage `rl`; `redo` drops the stage's earlier result first. Raises UserError where the stage
    does not exist, is complete, or lacks a stage before it.
    """
    names = stage_names()
    if name not in names:
        raise UserError(f"there is no stage {name!r}; there are {', '.join(names)}")
    parts = (name, *cell_of(cell)) if cell else (name,)
    if cell and name != "rl":
        raise UserError(f"stage {name} has no cells; --cell goes with stage rl")
    if lacking := [
        before for before in names[: names.index(name)] if needed(before, name) and not is_complete(run.stage(before))
    ]:
        raise UserError(
            f"stage {name} goes on from {', '.join(lacking)}, which {run.path} lacks: run them first, or use --from"
        )
    with run.locked():
        if redo:
            shutil.rmtree(run.stage(*parts), ignore_errors=True)
        if is_complete(run.stage(*parts)):
            raise UserError(f"stage {'/'.join(parts)} of {run.path} is complete; --redo runs it again")
        kit = Kit(recipe=recipe, run=run)
        with reported(run.log(), name):
            if cell:
                train_expert(kit, cell_of(cell))
            else:
                STAGES[names.index(name)].call(kit)


def borrow(origin: Run, run: Run, recipe: Recipe, *, before: str) -> None:
    """Give a new run the complete stages of `origin` that come before the stage `before`, and its configuration.

    Raises UserError where the run has begun already.
    """
    names = stage_names()
    if before not in names:
        raise UserError(f"there is no stage {before!r}; there are {', '.join(names)}")
    with run.locked():
        if run.events.exists():
            return
        for name in names[: names.index(before)]:
            recover_folder(origin.stage(name))
            if is_complete(origin.stage(name)):
                write_folder(run.stage(name), partial(_copy, origin.stage(name)))
        write_atomic(run.config, to_toml(recipe))
        announce(run, recipe, borrowed=origin.name)


def _copy(source: Path, folder: Path) -> None:
    shutil.copytree(source, folder, dirs_exist_ok=True)


def stage_names() -> list[str]:
    return [stage.name for stage in STAGES]


def needed(before: str, name: str) -> bool:
    """Whether a stage goes on from another: comparisons and the draft are only evaluated."""
    return before not in ("compare", "draft") or name == "evaluate"


def cell_of(text: str) -> Cell:
    """`domain/effort` as a cell. Raises UserError."""
    for cell in CELLS:
        if text in ("/".join(cell), ".".join(cell)):
            return cell
    raise UserError(f"there is no cell {text!r}; cells are e.g. coding/low")

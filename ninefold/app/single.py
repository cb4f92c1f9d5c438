"""One stage, or one cell of it, on its own."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from ninefold.app.configuration import differences, stored_recipe
from ninefold.app.journal import Figures
from ninefold.core.config import to_toml
from ninefold.core.errors import UserError
from ninefold.core.store import Run, is_complete, recover_folder, replacing, write_atomic, write_folder
from ninefold.core.types import CELLS, Cell
from ninefold.recipes.config import Recipe
from ninefold.recipes.evaluate import evaluate
from ninefold.recipes.kit import Kit
from ninefold.recipes.rl import train_expert
from ninefold.recipes.run import announce, reported, stages_of

BESIDE = {"compare": ("average", "mopd-full", "mopd-sampled")}
"""Stage → folders of models that it leaves beside its own."""


def run_stage(recipe: Recipe, run: Run, name: str, *, cell: str = "", redo: bool = False) -> None:
    """Run the stage `name` on what the stages before it left, with events like a whole run's.

    `cell` (`domain/effort`) is for stage `rl`; `redo` drops the stage's earlier result first. Raises UserError where the stage
    does not exist, is complete, or lacks a stage before it.
    """
    names = stage_names(recipe)
    if name not in names:
        raise UserError(f"there is no stage {name!r}; there are {', '.join(names)}")
    parts = (name, *cell_of(cell)) if cell else (name,)
    if cell and name != "rl":
        raise UserError(f"stage {name} has no cells; --cell goes with stage rl")
    check_before(recipe, run, name)
    with run.locked():
        recover_folder(run.stage(*parts))
        if is_complete(run.stage(*parts)) and not redo:
            raise UserError(f"stage {'/'.join(parts)} of {run.path} is complete; --redo runs it again")
        kit = Kit(recipe=recipe, run=run)
        if cell and (behind := [c for c in chain(recipe, cell_of(cell)) if not is_complete(run.stage("rl", *c))]):
            raise UserError(f"cell {cell} goes on from {'/'.join(behind[-1])}, which {run.path} lacks: train it first")
        with replacing(run.stage(*parts)) if redo else nullcontext(), reported(run.log(), name):
            if cell:
                train_expert(kit, cell_of(cell))
            else:
                stages_of(recipe)[names.index(name)].call(kit)


def check_before(recipe: Recipe, run: Run, name: str) -> None:
    """Raise UserError where the run lacks a stage that the stage `name` goes on from."""
    names = stage_names(recipe)
    earlier = [before for before in names[: names.index(name)] if needed(before, name)]
    if lacking := [before for before in earlier if not is_complete(run.stage(before))]:
        raise UserError(
            f"stage {name} goes on from {', '.join(lacking)}, which {run.path} lacks: run them first, or use --from"
        )


def evaluate_beside(recipe: Recipe, run: Run) -> Figures:
    """The figures of an evaluation that is not the run's own, made once."""
    config = recipe.evaluate
    check_before(recipe, run, "evaluate")
    stage = run.stage(f"evaluate-{config.tasks}-{config.seed}")
    with run.locked():
        if not is_complete(stage):
            evaluate(Kit(recipe=recipe, run=run), stage.name)
    return Figures.kept(stage)


def borrow(origin: Run, run: Run, recipe: Recipe, *, before: str, cell: str = "") -> None:
    """Give a new run the complete stages of `origin` that come before the stage `before`, the cells that `cell` goes on from,
    and its configuration. One that has begun keeps what it has.

    Raises UserError for a value that only a borrowed stage would read.
    """
    names = stage_names(recipe)
    if before not in names:
        raise UserError(f"there is no stage {before!r}; there are {', '.join(names)}")
    changed = differences(stored_recipe(origin), recipe)
    for key, (old, new) in changed.items():
        reader = reader_of(recipe, key)
        if names.index(reader) < names.index(before):
            raise UserError(f"{key} is {old!r} in {origin.path}, not {new!r}, and stage {reader} reads it: begin with that one")
    with run.locked():
        if run.events.exists():
            return
        earlier = names[: names.index(before)]
        for name in [*earlier, *(beside for stage in earlier for beside in BESIDE.get(stage, ()))]:
            recover_folder(origin.stage(name))
            if is_complete(origin.stage(name)):
                write_folder(run.stage(name), partial(_copy, origin.stage(name)))
        for behind in chain(recipe, cell_of(cell)) if cell else ():
            if is_complete(origin.stage("rl", *behind)):
                write_folder(run.stage("rl", *behind), partial(_copy, origin.stage("rl", *behind)))
        write_atomic(run.config, to_toml(recipe))
        announce(run, recipe, borrowed=origin.name)


def _copy(source: Path, folder: Path) -> None:
    shutil.copytree(source, folder, dirs_exist_ok=True)


READERS = {
    "pretrain.wire_documents": "corpus",
    "pretrain.decontaminate_tasks": "corpus",
    "pretrain": "pretrain",
    "sft.files": "demonstrations",
    "sft.demonstrations": "demonstrations",
    "sft.slip": "demonstrations",
    "sft.styles": "demonstrations",
    "sft.weights": "demonstrations",
    "sft": "sft",
    "engine": "budgets",
    "budgets": "budgets",
    "rl": "rl",
    "pool.rollouts": "pool",
    "pool.only_correct": "pool",
    "pool": "pooled",
    "mopd.compare": "compare",
    "mopd": "mopd",
    "draft.rollouts": "rollouts",
    "draft": "draft",
    "evaluate": "evaluate",
    "workers": "evaluate",
    "deterministic": "evaluate",
}
"""Key of the recipe → the first stage for which its value matters; all others matter from the beginning on."""


def reader_of(recipe: Recipe, key: str) -> str:
    """The first of the recipe's stages that reads a dotted key."""
    parts, names = key.split("."), stage_names(recipe)
    readers = (READERS.get(".".join(parts[:n])) for n in range(len(parts), 0, -1))
    return next((reader for reader in readers if reader in names), names[0])


def chain(recipe: Recipe, cell: Cell) -> list[Cell]:
    """The cells that a cell's start may come from, the first trained first."""
    domain, previous = cell[0], recipe.previous(cell[1])
    return [] if previous is None else [*chain(recipe, (domain, previous)), (domain, previous)]


def stage_names(recipe: Recipe) -> list[str]:
    return [stage.name for stage in stages_of(recipe)]


def needed(before: str, name: str) -> bool:
    """Whether a stage goes on from another: comparisons and the draft are only evaluated."""
    return before not in ("compare", "draft") or name == "evaluate"


def cell_of(text: str) -> Cell:
    """`domain/effort` as a cell. Raises UserError."""
    for cell in CELLS:
        if text in ("/".join(cell), ".".join(cell)):
            return cell
    raise UserError(f"there is no cell {text!r}; cells are e.g. coding/low")

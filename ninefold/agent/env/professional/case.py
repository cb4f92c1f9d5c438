"""One piece of professional work: what lies on the desk, and what is to be handed in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from ninefold.agent.env.professional import papers

Book = dict[str, list[list[papers.Cell]]]
"""Sheet → rows of cells from A1 on."""
Spec = Book | list[str]
"""A workbook's sheets, or a Word file's paragraphs."""
Content = str | Spec
"""Of a file to be handed in: text, or what `papers.py make` takes."""
Inputs = Mapping[str, float]
"""Input cell, as `Sheet/label/header` → its number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A drawn case. Everything is JSON, so that it fits into a task."""

    instruction: str
    key: str
    """Of its content, so that no case lies in two splits."""
    files: Mapping[str, str]
    """Text files to work from."""
    papers: Mapping[str, Spec] = field(default_factory=dict[str, Spec])
    """Workbooks and Word files to work from."""
    wanted: tuple[Mapping[str, Any], ...]
    """What is to be handed in: of each file its `path`, its `kind` (number, table, model, redline) and what must be in it."""


class Kind(Protocol):
    """A trade: its cases, and how they are solved from the files alone."""

    def draw(self, rng: Random, level: int) -> Case: ...

    def solve(self, shown: Mapping[str, str], level: int, care: int) -> dict[str, Content]:
        """Path → content of what is handed in, by whoever read `shown` (path → text, as `papers.py show` shows it).

        `care` says how many kinds of traps are heeded: 0 few, 1 some, 2 all.
        """
        ...


def number(path: str, value: float) -> dict[str, Any]:
    """A file with one number in it."""
    return {"path": path, "kind": "number", "value": value}


def table(path: str, columns: Sequence[str], keys: int, rows: Sequence[Sequence[str]]) -> dict[str, Any]:
    """A csv file with these rows in any order; the first `keys` columns tell them apart. Numbers are compared as numbers."""
    return {"path": path, "kind": "table", "columns": list(columns), "keys": keys, "rows": [list(row) for row in rows]}


def model(
    path: str,
    name: str,
    inputs: Inputs,
    outputs: Sequence[str],
    fixed: Sequence[str] = (),
    days: Sequence[str] = (),
) -> dict[str, Any]:
    """A workbook whose `outputs` (`Sheet/label/header`) follow from its `inputs` by live formulas, as the function `name` of
    `models.MODELS` computes them. Inputs in `fixed` are not varied, those in `days` are day numbers, moved together."""
    return {
        "path": path,
        "kind": "model",
        "name": name,
        "inputs": dict(inputs),
        "outputs": list(outputs),
        "fixed": list(fixed),
        "days": list(days),
    }


def redline(path: str, before: Sequence[str], after: Sequence[str]) -> dict[str, Any]:
    """A Word file whose tracked changes lead from the paragraphs `before` to `after`."""
    return {"path": path, "kind": "redline", "before": list(before), "after": list(after)}


def csv(columns: Sequence[str], rows: Sequence[Sequence[object]], separator: str = ",") -> str:
    """Text of a csv file; no cell holds the separator."""
    return "".join(separator.join(map(str, row)) + "\n" for row in (columns, *rows))


def cell(place: str) -> tuple[str, str, str]:
    """(sheet, label, header) of a place such as `Inputs/rate/value`."""
    sheet, label, header = place.split("/")
    return sheet, label, header


def numbers(book: Book) -> dict[str, float]:
    """`Sheet/label/header` → number, of every number in sheets whose labels stand in their first row and column."""
    return {
        f"{sheet}/{row[0]}/{header}": float(value)
        for sheet, rows in book.items()
        for row in rows[1:]
        for header, value in zip(rows[0][1:], row[1:])
        if isinstance(value, int | float)
    }


Compute = Callable[[Inputs], dict[str, float]]
"""What a model comes to: output cell → number."""

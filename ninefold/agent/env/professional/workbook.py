"""A workbook that was handed in: read with care, then computed for any inputs."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Any

import openpyxl
from openpyxl.utils.datetime import to_excel

from ninefold.agent.env.professional.formula import Area, Term, area_of, compiled
from ninefold.agent.env.professional.values import Array, Fault, Scalar, items, single
from ninefold.core.errors import NinefoldError, UserError, boundary

Place = tuple[str, int, int]
"""Sheet, row and column, from 1."""

MOST_BYTES = 8 << 20
"""Of a package, unpacked."""
MOST_PARTS = 200
MOST_CELLS = 10_000
MOST_ROWS = 5_000
MOST_COLUMNS = 200
MOST_STEPS = 200_000
"""Cells computed for one set of inputs."""
MOST_READ = 2_000_000
"""Cells looked at for one set of inputs."""

_FORBIDDEN = ("externallink", "vbaproject", "embeddings", "activex", "connections.xml", "macrosheet", "oleobject")
_WHITE = ("FFFFFFFF", "00FFFFFF")


class Foul(UserError):
    """A deliverable breaks a rule of form: it earns nothing, whatever stands in it."""


@contextmanager
def fouls(what: str) -> Iterator[None]:
    """Whatever a reader raises at what was handed in is a Foul."""
    problems: list[NinefoldError] = []
    with boundary(UserError, what, catch=problems.append):
        yield
    if problems:
        raise Foul(str(problems[0])[:200])


def check_package(data: bytes, main: str) -> None:
    """Raises Foul unless `data` is a package with the part `main` that is safe to unpack: small, complete, and with no links,
    macros or embedded things."""
    with fouls("not a package of an office program"), zipfile.ZipFile(io.BytesIO(data)) as package:
        parts = package.infolist()
        names = {part.filename for part in parts}
        if len(parts) > MOST_PARTS or len(names) < len(parts) or sum(part.file_size for part in parts) > MOST_BYTES:
            raise Foul("a package with too much in it")
        if bad := next((n for n in names for word in _FORBIDDEN if word in n.lower()), ""):
            raise Foul(f"a package with {bad}")
        if main not in names or "[Content_Types].xml" not in names:
            raise Foul(f"no {main} in it")
        for part in parts:
            text = package.read(part)
            if b"<!DOCTYPE" in text or b"<!ENTITY" in text or (part.filename.endswith(".rels") and b'"External"' in text):
                raise Foul(f"{part.filename} points outside")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workbook:
    """Cells of the visible sheets, formulas compiled."""

    constants: Mapping[Place, Scalar]
    """Cells that hold a value."""
    formulas: Mapping[Place, Term | Fault]
    """Cells that hold a formula; a Fault where it means nothing here."""
    sizes: Mapping[str, tuple[int, int]]
    """Sheet → last row and column."""
    unseen: frozenset[Place] = frozenset()
    """Cells that nobody sees: hidden, or white on white."""

    def computed(self, inputs: Mapping[Place, float]) -> Computation:
        """All values, with other numbers in the cells of `inputs`."""
        return Computation(self, dict(inputs))


def read(data: bytes) -> Workbook:
    """Raises Foul where it is no workbook that can be trusted to show what it holds."""
    check_package(data, "xl/workbook.xml")
    _check_size(data)
    with fouls("no workbook"):
        return _read(openpyxl.load_workbook(io.BytesIO(data), keep_links=False))
    raise AssertionError("what is raised there is a Foul")


def _check_size(data: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        sheets = [package.read(name) for name in package.namelist() if name.startswith("xl/worksheets/")]
    if sum(sheet.count(b"<c ") + sheet.count(b":c ") for sheet in sheets) > MOST_CELLS:
        raise Foul("too many cells")


def _read(book: Any) -> Workbook:
    constants: dict[Place, Scalar] = {}
    texts: dict[Place, str] = {}
    unseen: set[Place] = set()
    sizes: dict[str, tuple[int, int]] = {}
    for sheet in book.worksheets:
        if sheet.sheet_state != "visible":
            raise Foul(f"sheet {sheet.title!r} is hidden")
        sizes[sheet.title.casefold()] = (0, 0)
        for cell in (cell for cell in sheet._cells.values() if cell.value is not None):  # only those that exist
            place = (sheet.title.casefold(), cell.row, cell.column)
            rows, columns = sizes[place[0]]
            sizes[place[0]] = max(rows, cell.row), max(columns, cell.column)
            if cell.row > MOST_ROWS or cell.column > MOST_COLUMNS:
                raise Foul("a sheet without end")
            if _is_unseen(sheet, cell):
                unseen.add(place)
            formula = _formula(cell)
            if formula is None:
                constants[place] = _constant(cell.value)
            else:
                texts[place] = formula
    names = _names(book)
    formulas = {place: _compiled(formula, place[0], names) for place, formula in texts.items()}
    return Workbook(constants=constants, formulas=formulas, sizes=sizes, unseen=frozenset(unseen))


def _is_unseen(sheet: Any, cell: Any) -> bool:
    row, column = sheet.row_dimensions.get(cell.row), sheet.column_dimensions.get(cell.column_letter)
    if (row is not None and row.hidden) or (column is not None and column.hidden):
        return True
    if not cell.has_style:
        return False
    ink, fill = cell.font.color, cell.fill
    white = ink is not None and ((ink.type == "rgb" and ink.rgb in _WHITE) or (ink.type == "theme" and ink.theme == 0))
    on_white = fill.fill_type is None or (fill.fgColor.type == "rgb" and fill.fgColor.rgb in _WHITE)
    return (white and on_white) or cell.number_format.replace(" ", "").startswith(";")


def _formula(cell: Any) -> str | None:
    """The formula of a cell, None where it has none."""
    value = cell.value
    if hasattr(value, "text") and hasattr(value, "ref"):  # an array formula
        return value.text if str(value.text).startswith("=") else f"={value.text}"
    return value if cell.data_type == "f" and isinstance(value, str) else None


def _constant(value: Any) -> Scalar:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, datetime | date | time):
        return float(to_excel(value))
    return str(value)


def _compiled(formula: str, sheet: str, names: Mapping[str, Area]) -> Term | Fault:
    if "[" in formula or "|" in formula:
        raise Foul("a formula that links to another file or program")
    try:
        return compiled(formula, sheet, names)
    except Fault as fault:
        return fault


def _names(book: Any) -> dict[str, Area]:
    """Defined names that stand for an area."""
    found: dict[str, Area] = {}
    for name, defined in book.defined_names.items():
        try:
            sheet, *rest = area_of(str(defined.attr_text), "", {})
        except Fault:
            continue
        found[name.upper()] = (sheet.casefold(), rest[0], rest[1], rest[2], rest[3])
    return found


class _Missing(Exception):
    """Cells that have to be computed first."""

    def __init__(self, places: list[Place]) -> None:
        self.places = places


@dataclass(slots=True)
class Computation:
    """Values of a workbook's cells for given inputs, each computed when it is asked for, with a bound on the work."""

    book: Workbook
    inputs: Mapping[Place, float]
    known: dict[Place, Scalar | Fault] = field(default_factory=dict)
    steps: int = 0
    reads: int = 0

    def value(self, place: Place) -> Scalar:
        """Raises Fault where the cell has none, Foul where formulas go round in a circle or without end."""
        waiting = [place]
        while waiting:
            self.steps += 1
            if self.steps > MOST_STEPS or len(waiting) > MOST_CELLS:
                raise Foul("formulas that go round in a circle, or without end")
            try:
                self._compute(waiting[-1])
                waiting.pop()
            except _Missing as missing:
                waiting += missing.places
        found = self._plain(place)
        if isinstance(found, Fault):
            raise found
        return found

    def area(self, area: Area) -> Array:
        """The cells of an area, all of which are known; raises _Missing otherwise. A Fault among them is raised."""
        sheet, top, left, bottom, right = area
        sheet = sheet.casefold()
        if sheet not in self.book.sizes:
            raise Fault("#REF!")
        rows, columns = self.book.sizes[sheet]
        single_cell = (top, left) == (bottom, right)
        bottom = bottom if single_cell else min(bottom or rows, max(rows, top))
        right = right if single_cell else min(right or columns, max(columns, left))
        places = [[(sheet, row, column) for column in range(left, right + 1)] for row in range(top, bottom + 1)]
        self.reads += len(places) * len(places[0])
        if self.reads > MOST_READ:
            raise Foul("formulas that read too much")
        missing = [
            p for line in places for p in line if p in self.book.formulas and p not in self.known and p not in self.inputs
        ]
        if missing:
            raise _Missing(missing)
        found = [[self._plain(p) for p in line] for line in places]
        return [[_sound(value) for value in line] for line in found]

    def _compute(self, place: Place) -> None:
        term = self.book.formulas.get(place)
        if term is None or place in self.inputs or place in self.known:
            return
        if isinstance(term, Fault):
            self.known[place] = term
            return
        try:
            value = term(self)
            self.known[place] = next(items(value)) if isinstance(value, list) and value else single(value)
        except Fault as fault:
            self.known[place] = fault
        except RecursionError:  # a formula of a thousand terms
            self.known[place] = Fault("#NUM!")

    def _plain(self, place: Place) -> Scalar | Fault:
        if place in self.inputs:
            return self.inputs[place]
        return self.known[place] if place in self.known else self.book.constants.get(place)


def _sound(value: Scalar | Fault) -> Scalar:
    if isinstance(value, Fault):
        raise value
    return value


def labelled(book: Workbook, values: Computation, sheet: str) -> Iterator[tuple[str, str, Place]]:
    """(row label, column header, place) of each cell of a table that starts at A1 of the sheet. Raises Foul where a label or
    header stands twice, since nobody could tell which one is meant."""
    at = sheet.casefold()
    if at not in book.sizes:
        raise Foul(f"no sheet {sheet!r}")
    rows, columns = book.sizes[at]
    headers = {c: _label(values, (at, 1, c)) for c in range(2, columns + 1)}
    labels = {r: _label(values, (at, r, 1)) for r in range(2, rows + 1)}
    for names in (headers, labels):
        stated = [name for name in names.values() if name]
        if len(set(stated)) < len(stated):
            raise Foul(f"sheet {sheet!r} has a label twice")
    for r, label in labels.items():
        for c, header in headers.items():
            if label and header:
                yield label, header, (at, r, c)


def _label(values: Computation, place: Place) -> str:
    try:
        found = values.value(place)
    except Fault:
        return ""
    if isinstance(found, float) and found.is_integer():
        return str(int(found))
    return " ".join(str(found if found is not None else "").split()).casefold()

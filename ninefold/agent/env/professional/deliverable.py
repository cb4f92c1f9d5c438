"""Judges what was handed in, file by file, by computing it again. Form comes first: who hides, hedges or links gets nothing."""

from __future__ import annotations

import csv
import io
import math
import re
import zipfile
from collections.abc import Mapping, Sequence
from decimal import Decimal
from random import Random
from typing import Any

from ninefold.agent.env.professional import papers
from ninefold.agent.env.professional.case import cell
from ninefold.agent.env.professional.models import MODELS
from ninefold.agent.env.professional.values import Fault
from ninefold.agent.env.professional.workbook import Computation, Foul, Place, Workbook, check_package, fouls, labelled, read

TRIALS = 3
"""Sets of inputs that a model is computed with, besides its own."""
CLOSE = 1e-6
"""Relative difference of two numbers that count as one."""
LONGEST = 200_000
"""Characters of a text file."""

_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,9})?")
_UNSEEN = (b"w:vanish", b'"FFFFFF"', b"w:instrText")
"""Hidden text, white text, and text that Word computes."""
_ACTIVE = ("=", "+", "@", "\t", "\r")
"""What a spreadsheet takes for a formula at the start of a cell of a csv file; so it does "-", unless a number follows."""


def share(wanted: Mapping[str, Any], data: bytes, rng: Random) -> float:
    """How much of a file is right, in [0, 1]; `rng` draws the inputs that a model is tried with. Raises Foul."""
    match wanted["kind"]:
        case "number":
            return float(_one_number(data) == Decimal(str(wanted["value"])))
        case "table":
            return _table_share(wanted, _table(data, wanted))
        case "model":
            return _model_share(wanted, read(data), rng)
        case kind:
            assert kind == "redline", kind
            return _redline_share(wanted, _redline(data))


def reading(wanted: Mapping[str, Any], data: bytes, rng: Random) -> Any:
    """What a file says, as JSON: two that say the same are the same to whoever works with them."""
    try:
        match wanted["kind"]:
            case "number":
                return str(_one_number(data))
            case "table":
                return sorted([str(value) for value in row] for row in _table(data, wanted))
            case "model":
                return _model_reading(wanted, read(data), rng)
            case _:
                return _redline(data)
    except Foul as foul:
        return f"foul: {foul}"


def _text(data: bytes) -> str:
    if len(data) > LONGEST:
        raise Foul("a text without end")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Foul("not a text") from None


def _one_number(data: bytes) -> Decimal:
    text = _text(data).strip()
    if not _NUMBER.fullmatch(text):
        raise Foul("not one number")
    return Decimal(text)


def _value(text: str) -> Decimal | str:
    """A cell of a csv file: a number without separators of thousands, or text."""
    text = " ".join(text.split())
    return Decimal(text).normalize() + 0 if _NUMBER.fullmatch(text) else text


def _table(data: bytes, wanted: Mapping[str, Any]) -> list[list[Decimal | str]]:
    """Rows of a csv file below its header, which must be the one that was asked for."""
    text = _text(data)
    try:
        lines = [line for line in csv.reader(io.StringIO(text), strict=True) if line]
    except csv.Error as error:
        raise Foul(f"not a csv file: {error}") from None
    if not lines or [name.strip() for name in lines[0]] != wanted["columns"]:
        raise Foul(f"the header is not {','.join(wanted['columns'])}")
    for value in (value for line in lines for value in line):
        if value.lstrip(" ").startswith(_ACTIVE) or (value.startswith("-") and not _NUMBER.fullmatch(value.strip())):
            raise Foul("a cell that a spreadsheet takes for a formula")
    if any(len(line) != len(lines[0]) for line in lines):
        raise Foul("a row with too few or too many cells")
    rows = [[_value(value) for value in line] for line in lines[1:]]
    keys = [tuple(row[: wanted["keys"]]) for row in rows]
    if len(set(keys)) < len(keys):
        raise Foul("two rows for one thing")
    return rows


def _table_share(wanted: Mapping[str, Any], rows: list[list[Decimal | str]]) -> float:
    """Right rows among those wanted; a row that was not asked for takes one away."""
    expected = [tuple(map(_value, row)) for row in wanted["rows"]]
    right = sum(tuple(row) in expected for row in rows)
    surplus = max(0, len(rows) - len(expected))
    if not expected:
        return float(not rows)
    return max(0.0, (right - surplus) / len(expected))


def _model_share(wanted: Mapping[str, Any], book: Workbook, rng: Random) -> float:
    """Share of the inputs that are those of the documents, times that of the outputs that are right for them and for others:
    numbers that were typed in do not follow."""
    places = _places(wanted, book)
    if unseen := [name for name, place in places.items() if place in book.unseen]:
        raise Foul(f"nobody sees {unseen[0]}")
    if computed := [name for name in wanted["inputs"] if places[name] in book.formulas]:
        raise Foul(f"{computed[0]} is an input and holds a formula")
    stated = [_close(book.constants.get(places[name]), value) for name, value in wanted["inputs"].items()]
    trials = [dict(wanted["inputs"]), *(varied(wanted, rng, days_alone=trial == 0) for trial in range(TRIALS))]
    right = dict.fromkeys(wanted["outputs"], True)
    for inputs in trials:
        values, expected = _computed(book, places, inputs), MODELS[wanted["name"]](inputs)
        for name in wanted["outputs"]:
            right[name] = right[name] and _close(_output(values, places[name]), expected[name])
    return sum(stated) / len(stated) * sum(right.values()) / len(right)


def varied(wanted: Mapping[str, Any], rng: Random, *, days_alone: bool = False) -> dict[str, float]:
    """Other inputs: each a little larger or smaller than the task's, whole numbers whole, days moved together and, where there
    are any, perhaps alone."""
    found: dict[str, float] = {}
    moved = rng.randint(1, 400)
    for name, value in wanted["inputs"].items():
        factor = rng.uniform(0.8, 1.25)
        if name in wanted["days"]:
            found[name] = value + moved
        elif name in wanted["fixed"] or (days_alone and wanted["days"]):
            found[name] = value
        elif float(value).is_integer() and abs(value) >= 20:
            found[name] = float(math.floor(value * factor))
        else:
            found[name] = value * factor
    return found


def _places(wanted: Mapping[str, Any], book: Workbook) -> dict[str, Place]:
    """Where the workbook has each input and output, by the labels of its sheets."""
    values = book.computed({})
    names = [*wanted["inputs"], *wanted["outputs"]]
    found: dict[tuple[str, str, str], Place] = {}
    for sheet in {cell(name)[0] for name in names}:
        for label, header, place in labelled(book, values, sheet):
            found[sheet, label, header] = place
    places: dict[str, Place] = {}
    for name in names:
        sheet, label, header = cell(name)
        place = found.get((sheet, label.casefold(), header.casefold()))
        if place is None:
            raise Foul(f"no cell for {name}")
        places[name] = place
    return places


def _computed(book: Workbook, places: Mapping[str, Place], inputs: Mapping[str, float]) -> Computation:
    return book.computed({places[name]: value for name, value in inputs.items()})


def _output(values: Computation, place: Place) -> object:
    try:
        return values.value(place)
    except Fault as fault:
        return str(fault)


def _close(value: object, expected: float) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isclose(value, expected, rel_tol=CLOSE, abs_tol=CLOSE)


def _model_reading(wanted: Mapping[str, Any], book: Workbook, rng: Random) -> Any:
    places = _places(wanted, book)
    stated = [_told(book.constants.get(places[name])) for name in wanted["inputs"]]
    said: list[Any] = [stated, sorted(name for name in places if places[name] in book.unseen)]
    for inputs in (dict(wanted["inputs"]), varied(wanted, rng)):
        values = _computed(book, places, inputs)
        said.append([_told(_output(values, places[name])) for name in wanted["outputs"]])
    return said


def _told(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _redline(data: bytes) -> list[list[str]]:
    """[paragraphs with all changes rejected, with all accepted]; empty ones are left out."""
    check_package(data, "word/document.xml")
    if any(mark in part for mark in _UNSEEN for part in _parts(data)):
        raise Foul("text that nobody sees")
    with fouls("no Word file"):
        found = papers.pieces(data)
    sides = [
        ["".join(text for kind, text in pieces if kind in kinds) for pieces in found] for kinds in (("", "del"), ("", "ins"))
    ]
    return [[" ".join(text.split()) for text in side if text.strip()] for side in sides]


def _parts(data: bytes) -> Sequence[bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        return [package.read(name) for name in package.namelist() if name.endswith(".xml")]


def _redline_share(wanted: Mapping[str, Any], found: list[list[str]]) -> float:
    """Paragraphs changed as they should be; the original must be there whole, and no other paragraph may change."""
    rejected, accepted = found
    before, after = wanted["before"], wanted["after"]
    if rejected != before or len(accepted) != len(after):
        raise Foul("with all changes rejected it is not the document that was to be changed")
    pairs = list(zip(before, after, accepted))
    if any(new != old for old, right, new in pairs if old == right):
        raise Foul("a paragraph is changed that was not to be")
    due = [(right, new) for old, right, new in pairs if old != right]
    return sum(right == new for right, new in due) / len(due)

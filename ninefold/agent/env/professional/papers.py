"""Workbooks and Word files with the standard library alone. It builds a task's inputs here, and lies as a tool in the sandbox:

python3 papers.py show FILE...         text of workbooks (cells by address) and Word files (numbered paragraphs)
python3 papers.py make SPEC.json OUT … OUT.xlsx from {"Sheet": [[cell, ...], ...]}, where "=..." is a formula;
                                       OUT.docx from ["paragraph", ...], where {--old--} and {++new++} are tracked changes
"""

from __future__ import annotations

import io
import json
import re
import sys
import zipfile
from html import escape
from pathlib import Path
from xml.etree import ElementTree

Cell = str | float | int | bool | None

_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_APPLICATION = "application/vnd.openxmlformats-officedocument."
_MARKS = re.compile(r"\{--(.*?)--\}|\{\+\+(.*?)\+\+\}", re.DOTALL)


def workbook(sheets: dict[str, list[list[Cell]]]) -> bytes:
    """An xlsx file: sheets by name, each rows of cells from A1 on. Equal sheets give equal bytes."""
    parts = {"xl/workbook.xml": _book(list(sheets))}
    types = [("/xl/workbook.xml", "spreadsheetml.sheet.main+xml")]
    for number, rows in enumerate(sheets.values(), 1):
        parts[f"xl/worksheets/sheet{number}.xml"] = _sheet(rows)
        types.append((f"/xl/worksheets/sheet{number}.xml", "spreadsheetml.worksheet+xml"))
    places = [(f"rId{n}", "worksheet", f"worksheets/sheet{n}.xml") for n in range(1, len(sheets) + 1)]
    parts["xl/_rels/workbook.xml.rels"] = _relations(places)
    return _packed(parts, types, "xl/workbook.xml")


def word(paragraphs: list[str]) -> bytes:
    """A docx file of paragraphs; {--old--} and {++new++} become tracked changes. Equal paragraphs give equal bytes."""
    body = "".join(f"<w:p>{_runs(text)}</w:p>" for text in paragraphs)
    parts = {"word/document.xml": f'{_HEAD}<w:document xmlns:w="{_WORD}"><w:body>{body}</w:body></w:document>'}
    return _packed(parts, [("/word/document.xml", "wordprocessingml.document.main+xml")], "word/document.xml")


def packed(content: dict[str, list[list[Cell]]] | list[str]) -> bytes:
    """A workbook of sheets, or a Word file of paragraphs."""
    return word(content) if isinstance(content, list) else workbook(content)


def pieces(data: bytes) -> list[list[tuple[str, str]]]:
    """(kind, text) of the pieces of each paragraph of a docx file, in order; kind is "ins" or "del" in tracked changes, or "".

    Raises what zipfile and XML raise.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        body = ElementTree.fromstring(package.read("word/document.xml"))
    return [_pieces(paragraph, "") for paragraph in body.iter(f"{{{_WORD}}}p")]


def paragraphs(data: bytes) -> list[str]:
    """Text of each paragraph, tracked changes as {--old--} and {++new++}. Raises what zipfile and XML raise."""
    marks = {"ins": "{++%s++}", "del": "{--%s--}", "": "%s"}
    return ["".join(marks[kind] % text for kind, text in paragraph) for paragraph in pieces(data)]


def cells(data: bytes) -> dict[str, dict[str, str]]:
    """Sheet → address → formula or value, as text, of an xlsx file. Raises what zipfile and XML raise."""
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        shared = _shared(package)
        book = ElementTree.fromstring(package.read("xl/workbook.xml"))
        relations = ElementTree.fromstring(package.read("xl/_rels/workbook.xml.rels"))
        targets = {relation.get("Id"): relation.get("Target", "") for relation in relations}
        found: dict[str, dict[str, str]] = {}
        for sheet in book.iter(f"{{{_SHEET}}}sheet"):
            target = targets[sheet.get(f"{{{_OFFICE}}}id")].lstrip("/")
            target = target if target.startswith("xl/") else f"xl/{target}"
            found[sheet.get("name", "")] = _addressed(ElementTree.fromstring(package.read(target)), shared)
    return found


def _packed(parts: dict[str, str], types: list[tuple[str, str]], main: str) -> bytes:
    overrides = "".join(f'<Override PartName="{name}" ContentType="{_APPLICATION}{kind}"/>' for name, kind in types)
    parts = {
        "[Content_Types].xml": f'{_HEAD}<Types xmlns="{_PACKAGE}content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Default Extension="xml" ContentType="application/xml"/>{overrides}</Types>',
        "_rels/.rels": _relations([("rId1", "officeDocument", main)]),
        **parts,
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as package:
        for name, text in parts.items():
            package.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _relations(places: list[tuple[str, str, str]]) -> str:
    made = "".join(f'<Relationship Id="{id}" Type="{_OFFICE}/{kind}" Target="{target}"/>' for id, kind, target in places)
    return f'{_HEAD}<Relationships xmlns="{_PACKAGE}relationships">{made}</Relationships>'


def _book(names: list[str]) -> str:
    sheets = "".join(f'<sheet name="{escape(name)}" sheetId="{n}" r:id="rId{n}"/>' for n, name in enumerate(names, 1))
    return f'{_HEAD}<workbook xmlns="{_SHEET}" xmlns:r="{_OFFICE}"><sheets>{sheets}</sheets></workbook>'


def _sheet(rows: list[list[Cell]]) -> str:
    made: list[str] = []
    for number, row in enumerate(rows, 1):
        line = "".join(_cell(f"{column(place)}{number}", value) for place, value in enumerate(row, 1) if value is not None)
        made.append(f'<row r="{number}">{line}</row>')
    return f'{_HEAD}<worksheet xmlns="{_SHEET}"><sheetData>{"".join(made)}</sheetData></worksheet>'


def _cell(address: str, value: Cell) -> str:
    if isinstance(value, bool):
        return f'<c r="{address}" t="b"><v>{int(value)}</v></c>'
    if isinstance(value, int | float):
        return f'<c r="{address}"><v>{value!r}</v></c>'
    if str(value).startswith("="):
        return f'<c r="{address}"><f>{escape(str(value)[1:])}</f></c>'
    return f'<c r="{address}" t="inlineStr"><is><t xml:space="preserve">{escape(str(value))}</t></is></c>'


def column(number: int) -> str:
    """Letters of a column, the first being 1."""
    letters = ""
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def _shared(package: zipfile.ZipFile) -> list[str]:
    if "xl/sharedStrings.xml" not in package.namelist():
        return []
    table = ElementTree.fromstring(package.read("xl/sharedStrings.xml"))
    return ["".join(t.text or "" for t in item.iter(f"{{{_SHEET}}}t")) for item in table]


def _addressed(sheet: ElementTree.Element, shared: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for cell in sheet.iter(f"{{{_SHEET}}}c"):
        formula, value = cell.find(f"{{{_SHEET}}}f"), cell.find(f"{{{_SHEET}}}v")
        text = value.text or "" if value is not None else ""
        if formula is not None:
            text = f"={formula.text or ''}" + (f" → {text}" if text else "")
        elif cell.get("t") == "s":
            text = shared[int(text)]
        elif cell.get("t") == "inlineStr":
            text = "".join(t.text or "" for t in cell.iter(f"{{{_SHEET}}}t"))
        if text:
            found[cell.get("r", "")] = text
    return found


def _runs(text: str) -> str:
    made, place = "", 0
    for number, mark in enumerate(_MARKS.finditer(text), 1):
        made += _run(text[place : mark.start()], "t")
        kind, tag = ("del", "delText") if mark[1] is not None else ("ins", "t")
        about = f'w:id="{number}" w:author="reviewer" w:date="2024-01-01T00:00:00Z"'
        made += f"<w:{kind} {about}>{_run(mark[1] if mark[1] is not None else mark[2], tag)}</w:{kind}>"
        place = mark.end()
    return made + _run(text[place:], "t")


def _run(text: str, tag: str) -> str:
    return f'<w:r><w:{tag} xml:space="preserve">{escape(text)}</w:{tag}></w:r>' if text else ""


def _pieces(element: ElementTree.Element, kind: str) -> list[tuple[str, str]]:
    tag = element.tag.removeprefix(f"{{{_WORD}}}")
    if tag in ("t", "delText"):
        return [(kind, element.text or "")]
    if tag in ("tab", "br"):
        return [(kind, " ")]
    kind = tag if tag in ("ins", "del") else kind
    return [piece for child in element for piece in _pieces(child, kind)]


def shown(path: str, data: bytes) -> str:
    """Text of a file for people."""
    if path.endswith(".docx"):
        return "\n".join(f"{number}| {text}" for number, text in enumerate(paragraphs(data), 1))
    if path.endswith(".xlsx"):
        sheets = cells(data).items()
        return "\n".join(f"[{name}]\n" + "\n".join(f"{at}| {text}" for at, text in found.items()) for name, found in sheets)
    return data.decode()


def main(arguments: list[str]) -> None:
    match arguments:
        case ["show", *paths] if paths:
            for path in paths:
                print(f"== {path}\n{shown(path, Path(path).read_bytes())}")
        case ["make", *pairs] if pairs and len(pairs) % 2 == 0 and all(out.endswith((".xlsx", ".docx")) for out in pairs[1::2]):
            for spec, out in zip(pairs[::2], pairs[1::2]):
                Path(out).parent.mkdir(parents=True, exist_ok=True)
                Path(out).write_bytes(packed(json.loads(Path(spec).read_text())))
                print(f"made {out}")
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])

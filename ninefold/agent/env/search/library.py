"""The documents that are searched: NumPy's own documentation, as installed, read without importing it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from ninefold.core.errors import UserError
from ninefold.index import Document, Index

PACKAGE = "numpy"
_LONGEST = 600
"""Characters of prose kept of one entry."""
_WORD = re.compile(r"[A-Za-z]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One function or class and what its documentation says."""

    id: str
    title: str
    """Dotted name, private modules left out."""
    prose: str
    """What stands before the first section, in one line."""
    related: tuple[str, ...]
    """Ids of the entries that its See Also names, in order."""

    @property
    def sentences(self) -> list[str]:
        """Sentences of plain words only, without their full stops."""
        return [s for s in re.split(r"\.(?:\s+|$)", self.prose) if s and all(_WORD.fullmatch(w) for w in s.split(" "))]


@dataclass(frozen=True, kw_only=True)
class Library:
    """All entries, and the index over them."""

    entries: dict[str, Entry]
    """By id."""
    index: Index

    def holding(self, pattern: re.Pattern[str]) -> list[Entry]:
        """Entries whose prose matches."""
        return [entry for entry in self.entries.values() if pattern.search(entry.prose)]


@cache
def library() -> Library:
    """The documentation of the installed package; read once a process (about half a second)."""
    found = sorted(set(_docstrings()))
    ids = {title: str(number) for number, (title, _) in enumerate(found)}
    names = Counter(title.rpartition(".")[2] for title in ids)
    by_name = {title.rpartition(".")[2]: id for title, id in ids.items() if names[title.rpartition(".")[2]] == 1}
    entries = {
        ids[title]: Entry(
            id=ids[title],
            title=title,
            prose=_prose(text),
            related=tuple(dict.fromkeys(by_name[n] for n in _see_also(text) if by_name.get(n, ids[title]) != ids[title])),
        )
        for title, text in found
    }
    return Library(entries=entries, index=Index.build(_document(entry, entries) for entry in entries.values()))


def _document(entry: Entry, entries: dict[str, Entry]) -> Document:
    related = ", ".join(entries[id].title for id in entry.related)
    return Document(id=entry.id, title=entry.title, text=entry.prose + (f"\nSee also: {related}" if related else ""))


def _docstrings() -> Iterator[tuple[str, str]]:
    """(title, docstring) of every public function and class."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise UserError(f"the search tasks read the documentation of {PACKAGE}, which is not installed: pip install {PACKAGE}")
    root = Path(spec.origin).parent
    seen: set[str] = set()
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if "tests" in parts:
            continue
        modules = [part for part in parts if not part.startswith("_")]
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
                continue
            title, text = ".".join([PACKAGE, *modules, node.name]), ast.get_docstring(node) or ""
            if len(_prose(text)) >= 40 and title not in seen:
                seen.add(title)
                yield title, text


def _prose(docstring: str) -> str:
    """The description in one line, cut at the end of a word."""
    before = re.split(r"\n[A-Z][A-Za-z ]+\n-{3,}|\n\.\. |::\n", docstring, maxsplit=1)[0]
    line = " ".join(before.split())
    return line if len(line) <= _LONGEST else line[:_LONGEST].rpartition(" ")[0]


def _see_also(docstring: str) -> list[str]:
    """Names listed under See Also, without their modules."""
    section = re.search(r"\nSee [Aa]lso\n-{3,}\n(.*?)(?=\n\n[A-Z][A-Za-z ]+\n-{3,}|\Z)", docstring, re.DOTALL)
    if section is None:
        return []
    names: list[str] = []
    for line in section[1].splitlines():
        listed = re.fullmatch(r"((?:[\w.]+, )*[\w.]+)(?: *:.*)?", line)
        names += [name.rpartition(".")[2] for name in listed[1].split(", ")] if listed else []
    return names

"""The documents of deep research: the reference of NumPy and NetworkX as installed, read without importing them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from ninefold.core.errors import UserError
from ninefold.index import Document, Index

PACKAGES = ("networkx", "numpy")
LONGEST = 6_000
"""Characters of a document; what comes after them is left out."""

_BLANK = "\n\n"
"""Between signature and docstring."""
_SECTION = re.compile(r"\n([A-Z][A-Za-z ]+)\n-{3,}\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The reference of one function."""

    id: str
    title: str
    """Dotted name, private modules left out."""
    text: str
    """Its signature in one line, an empty line, its docstring."""
    defaults: Mapping[str, str]
    """Parameter → default, as the signature writes it."""
    related: tuple[str, ...]
    """Titles of the entries that its See Also names and that are here, in order."""

    prose: str
    """The docstring before its first section, in one line."""


@dataclass(frozen=True, kw_only=True)
class Stacks:
    """All entries, and the index over them."""

    entries: Mapping[str, Entry]
    """By title."""
    index: Index


@cache
def stacks() -> Stacks:
    """The reference of the installed packages; read once a process (a few seconds)."""
    found: dict[str, tuple[str, dict[str, str]]] = {}
    for package in PACKAGES:
        for title, text, defaults in _functions(package):
            found.setdefault(title, (text, defaults))
    by_name: dict[tuple[str, str], list[str]] = {}
    for title in found:
        by_name.setdefault((title.partition(".")[0], title.rpartition(".")[2]), []).append(title)
    entries = {
        title: Entry(
            id=str(number),
            title=title,
            text=text,
            defaults=defaults,
            prose=" ".join(_SECTION.split(f"\n{text.partition(_BLANK)[2]}", maxsplit=1)[0].split()),
            related=tuple(t for t in dict.fromkeys(_related(title, text, by_name)) if t != title),
        )
        for number, (title, (text, defaults)) in enumerate(sorted(found.items()), 1)
    }
    documents = (Document(id=entry.id, title=entry.title, text=entry.text) for entry in entries.values())
    return Stacks(entries=entries, index=Index.build(documents))


def see_also(text: str) -> list[str]:
    """The names that a document's See Also lists, in order."""
    section = re.search(r"\nSee [Aa]lso\n-{3,}\n(.*?)(?=\n\n[A-Z][A-Za-z ]+\n-{3,}|\Z)", text, re.DOTALL)
    names: list[str] = []
    for line in section[1].splitlines() if section else ():
        listed = re.fullmatch(r"((?:[\w.:`]+, )*[\w.:`]+)(?: *: .*)?", line)
        names += [name.strip("`").rpartition(".")[2] for name in listed[1].split(", ")] if listed else []
    return names


def _related(title: str, text: str, by_name: Mapping[tuple[str, str], list[str]]) -> Iterator[str]:
    for name in see_also(text):
        if len(known := by_name.get((title.partition(".")[0], name), [])) == 1:
            yield known[0]


def _functions(package: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """(title, text, defaults) of every public function with a docstring."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise UserError(f"deep research reads the reference of {package}, which is not installed: pip install {package}")
    root = Path(spec.origin).parent
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if "tests" in parts or any(part.startswith("_") for part in parts[:-1]):
            continue
        modules = [part for part in parts if not part.startswith("_")]
        for node in ast.parse(path.read_text()).body:
            docstring = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None
            if isinstance(node, ast.FunctionDef) and docstring and not node.name.startswith("_"):
                title = ".".join([package, *modules, node.name])
                yield title, f"{title}({ast.unparse(node.args)}){_BLANK}{docstring}"[:LONGEST], _defaults(node.args)


def _defaults(arguments: ast.arguments) -> dict[str, str]:
    positional = [*arguments.posonlyargs, *arguments.args]
    behind = positional[len(positional) - len(arguments.defaults) :]
    named = [*zip(behind, arguments.defaults), *zip(arguments.kwonlyargs, arguments.kw_defaults)]
    return {argument.arg: ast.unparse(default) for argument, default in named if default is not None}

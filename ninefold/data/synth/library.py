"""The documents that a graph grows from: what lies on this machine, under stable addresses, pinned by a manifest."""

from __future__ import annotations

import ast
import gzip
import hashlib
import html
import importlib.metadata
import json
import platform
import re
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

from ninefold.core.config import Config
from ninefold.core.errors import UserError
from ninefold.core.store import read_json, write_folder, write_json
from ninefold.index import Document, Index

PYTHON = "python"
"""Stands for the standard library among packages."""
_GLOSS = re.compile(r"^(?P<names>[^():\n]+) \(noun\): (?P<gloss>.+)$", re.MULTILINE)
_SHORTEST = 40
"""Characters of a docstring that is a document."""
_LONGEST = 8000
"""Characters kept of one document."""


class Sources(Config):
    """Which documents are read."""

    packages: tuple[str, ...] = (PYTHON, "numpy", "sympy", "mpmath", "networkx", "torch")
    """Installed packages whose public modules, classes and functions are read, each a document; `python` is the standard
    library."""
    glosses: bool = True
    """The WordNet glosses that ship with ninefold, each a document."""
    pages: bool = True
    """The pages of Python's manual that ship with ninefold."""
    folders: tuple[str, ...] = ()
    """Folders of .txt, .md and .html files, and of .info.gz manuals, e.g. /usr/share/info."""


@dataclass(frozen=True, kw_only=True)
class Library:
    """Documents by address, and the index over them."""

    documents: dict[str, Document]
    """By address: `doc://package/version/name`."""

    @cached_property
    def index(self) -> Index:
        return Index.build(self.documents.values())

    def within(self, collections: tuple[str, ...]) -> Library:
        """The part of it that lies in the named collections (what follows `doc://`); all of it where none is named."""
        if not collections:
            return self
        if collections not in self._parts:
            parts = {url: document for url, document in self.documents.items() if url.split("/")[2] in collections}
            self._parts[collections] = Library(documents=parts)
        return self._parts[collections]

    @cached_property
    def _parts(self) -> dict[tuple[str, ...], Library]:
        return {}

    @cached_property
    def digest(self) -> str:
        """Hash of all documents."""
        return hashlib.sha256(json.dumps(sorted(self.manifest.items())).encode()).hexdigest()

    @cached_property
    def manifest(self) -> dict[str, str]:
        """Address → sha256 of title and text."""
        return {url: sha256(f"{document.title}\n{document.text}") for url, document in self.documents.items()}

    def save(self, folder: Path) -> None:
        """Keep documents and manifest in `folder`, complete or absent."""

        def fill(new: Path) -> None:
            lines = (json.dumps(asdict(document), ensure_ascii=False) + "\n" for document in self.documents.values())
            (new / "documents.jsonl").write_text("".join(lines))
            write_json(new / "manifest.json", self.manifest)

        write_folder(folder, fill)

    @staticmethod
    def load(folder: Path) -> Library:
        """Raises UserError where a document is not what the manifest says."""
        lines = (folder / "documents.jsonl").read_text().splitlines()
        library = Library.of(Document(**json.loads(line)) for line in lines)
        if library.manifest != read_json(folder / "manifest.json"):
            raise UserError(f"{folder}: the documents are not those of manifest.json; remove the folder, and it is made anew")
        return library

    @staticmethod
    def of(documents: Iterable[Document]) -> Library:
        return Library(documents={document.id: document for document in documents})


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def read(sources: Sources) -> Library:
    """Every document of the sources. Raises UserError naming a package or folder that is not there."""
    return Library.of(_all(sources))


def _all(sources: Sources) -> Iterator[Document]:
    for package in sources.packages:
        yield from _package(package)
    if sources.glosses:
        yield from _glosses(_excerpt("knowledge"))
    if sources.pages:
        for text in _excerpt("web").split("\f"):
            title = text.partition("\n")[0]
            yield _document(f"doc://python-doc/3.11/{_slug(title)}", title, text)
    for folder in sources.folders:
        yield from _folder(Path(folder))


def _document(url: str, title: str, text: str) -> Document:
    return Document(id=url, title=title, text=text[:_LONGEST])


def _excerpt(name: str) -> str:
    return gzip.decompress((resources.files("ninefold.data.corpus") / "excerpts" / f"{name}.txt.gz").read_bytes()).decode()


def _slug(title: str) -> str:
    return re.sub(r"\W+", "-", title.casefold()).strip("-")


def _glosses(text: str) -> Iterator[Document]:
    for gloss in _GLOSS.finditer(text.replace("\f", "\n")):
        key = f"{_slug(gloss['names'].partition(',')[0])}-{sha256(gloss[0])[:8]}"
        yield _document(f"doc://wordnet/3.0/{key}", gloss["names"], gloss[0])


def _package(name: str) -> Iterator[Document]:
    root, version = _root(name)
    seen: set[str] = set()
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        modules = ([] if name == PYTHON else [name]) + [part for part in parts if part != "__init__"]
        if any(part.startswith(("_", "test")) or part in _NOT_DOCUMENTS for part in modules) or not modules:
            continue
        for title, text in _docstrings(path, ".".join(modules)):
            if title not in seen and len(text) >= _SHORTEST:
                seen.add(title)
                yield _document(f"doc://{name}/{version}/{title}", title, text)


_NOT_DOCUMENTS = {"site-packages", "lib2to3", "idlelib", "ensurepip", "pydoc_data", "conftest", "turtledemo", "distutils"}


def _root(name: str) -> tuple[Path, str]:
    if name == PYTHON:
        return Path(sysconfig.get_paths()["stdlib"]), platform.python_version()
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise UserError(
            f"the graph reads the package {name!r}, which is not installed: install it, or leave it out of packages"
        )
    return Path(spec.origin).parent, importlib.metadata.version(name)


def _docstrings(path: Path, module: str) -> Iterator[tuple[str, str]]:
    """(dotted name, docstring) of a module and its public functions and classes."""
    try:
        tree = ast.parse(path.read_text("utf-8", errors="replace"))
    except SyntaxError:  # templates and files for other Pythons
        return
    members = [n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef) and not n.name.startswith("_")]
    contents = f"Module of {', '.join(node.name for node in members)}." if members else ""
    yield module, ast.get_docstring(tree) or contents
    for node in members:
        yield f"{module}.{node.name}", ast.get_docstring(node) or ""


def _folder(folder: Path) -> Iterator[Document]:
    if not folder.is_dir():
        raise UserError(f"the graph reads {folder}, which is no folder")
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        url = f"doc://{folder.name}/{path.relative_to(folder)}"
        if path.suffix in {".txt", ".md"}:
            yield _document(url, path.stem, path.read_text("utf-8", errors="replace"))
        elif path.suffix == ".html":
            yield _html(url, path)
        elif path.name.endswith(".info.gz"):
            yield from _info(url, gzip.decompress(path.read_bytes()).decode("utf-8", errors="replace"))


def _html(url: str, path: Path) -> Document:
    text = path.read_text("utf-8", errors="replace")
    title = re.search(r"(?is)<title>(.*?)</title>", text)
    plain = html.unescape(re.sub(r"(?is)<(script|style|head).*?</\1>|<[^>]+>", " ", text))
    return _document(url, html.unescape(title[1]).strip() if title else path.stem, plain)


def _info(url: str, text: str) -> Iterator[Document]:
    """The nodes of an Info manual."""
    for node in text.split("\x1f\n"):
        name = re.match(r"File: [^,]+,  Node: ([^,\n]+)", node)
        if name:
            yield _document(f"{url}/{_slug(name[1])}", name[1], node.partition("\n")[2].strip())

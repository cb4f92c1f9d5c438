"""Documents, and the sources they are read from."""

from __future__ import annotations

import ast
import gzip
import hashlib
import importlib.metadata
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

from ninefold.core.config import Config
from ninefold.core.errors import UserError

TextDomain = Literal["code", "web", "mathematics", "knowledge"]
TEXT_DOMAINS: tuple[TextDomain, ...] = ("code", "web", "mathematics", "knowledge")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One text, before tokenisation."""

    id: str
    """Where it came from, unique in the corpus."""
    domain: TextDomain
    text: str

    @property
    def hash(self) -> str:
        """Hash of the text with white space collapsed and case folded."""
        return hashlib.sha256(re.sub(r"\s+", " ", self.text).strip().casefold().encode()).hexdigest()


class Sources(Config):
    """Where each domain's text is read from."""

    code: tuple[str, ...] = ("networkx", "rich", "typer", "fastapi")
    """Installed packages whose Python source is read."""
    mathematics: tuple[str, ...] = ("mpmath", "sympy")
    """Installed packages whose docstrings are read."""
    excerpts: tuple[TextDomain, ...] = ("web", "knowledge")
    """Domains read from the excerpts shipped with ninefold."""
    folders: dict[TextDomain, tuple[str, ...]] = {}
    """More text by domain: folders of .txt, .md, .html or .py files, e.g. what `make system` installs under /usr/share/doc."""


def read(sources: Sources) -> Iterator[Document]:
    """Every document of the sources, in a stable order."""
    for package in sources.code:
        yield from _code(package)
    for package in sources.mathematics:
        yield from _docstrings(package)
    for domain in sources.excerpts:
        packed = resources.files("ninefold.data.corpus") / "excerpts" / f"{domain}.txt.gz"
        for i, text in enumerate(gzip.decompress(packed.read_bytes()).decode().split("\f")):
            yield Document(id=f"excerpt/{domain}/{i}", domain=domain, text=text)
    for domain, folders in sources.folders.items():
        for folder in folders:
            yield from _folder(domain, Path(folder))


def versions(sources: Sources) -> dict[str, str]:
    """Package → installed version, for the manifest."""
    return {name: importlib.metadata.version(name) for name in (*sources.code, *sources.mathematics)}


def _files(package: str) -> list[tuple[str, Path]]:
    """(name within the installation, path) of a package's Python files, tests left out."""
    try:
        files = importlib.metadata.files(package)
    except importlib.metadata.PackageNotFoundError:
        raise UserError(f"the corpus reads the package {package!r}, which is not installed: run `make setup`") from None
    paths = [f for f in files or () if f.suffix == ".py" and "test" not in str(f) and not str(f).startswith("..")]
    if not paths:
        raise UserError(f"the package {package!r} lists no Python files: install it with pip, or take it out of corpus.sources")
    return [(str(f), Path(str(f.locate()))) for f in sorted(paths, key=str)]


def _code(package: str) -> Iterator[Document]:
    for name, path in _files(package):
        yield Document(id=name, domain="code", text=path.read_text("utf-8"))


def _docstrings(package: str) -> Iterator[Document]:
    for name, path in _files(package):
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                text = ast.get_docstring(node)
                if text and len(text) > 300:
                    line = 0 if isinstance(node, ast.Module) else node.lineno
                    yield Document(id=f"{name}:{line}", domain="mathematics", text=text)


def _folder(domain: TextDomain, folder: Path) -> Iterator[Document]:
    if not folder.is_dir():
        raise UserError(f"corpus.sources.folders.{domain}: {folder} is no folder")
    for path in sorted(p for p in folder.rglob("*") if p.suffix in {".txt", ".md", ".html", ".py"} and p.is_file()):
        text = path.read_text("utf-8", errors="replace")
        if path.suffix == ".html":
            text = re.sub(r"(?s)<(script|style).*?</\1>|<[^>]+>", " ", text)
        yield Document(id=str(path), domain=domain, text=text)

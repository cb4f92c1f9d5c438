"""A lexical index on SQLite's FTS5: the same documents and query give the same ranking."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from ninefold.core.errors import UserError

_QUERY_WORDS = 32
"""Words of a query beyond these are left out, so that no query is costly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document of an index."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A document that matches a query."""

    id: str
    title: str
    score: float
    """BM25 with the title weighted fourfold; larger is better."""


class Index:
    """Documents that can be searched by their words, stemmed; read-only once built."""

    def __init__(self, connection: sqlite3.Connection, digest: str) -> None:
        """Use `Index.build`."""
        self._connection = connection
        self.digest = digest
        """Hash of all documents, whatever order they came in."""

    @staticmethod
    def build(documents: Iterable[Document]) -> Index:
        """Index `documents` in memory. Raises UserError where two of them share an id."""
        ordered = sorted(documents, key=lambda document: document.id)
        for before, after in pairwise(ordered):
            if before.id == after.id:
                raise UserError(f"two documents have the id {after.id!r}; ids must be unique")
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        _fill(connection, ordered)
        text = json.dumps([[d.id, d.title, d.text] for d in ordered])
        return Index(connection, hashlib.sha256(text.encode()).hexdigest())

    def __len__(self) -> int:
        return self._connection.execute("SELECT count(*) FROM documents").fetchone()[0]

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The `k` best documents that hold any word of `query`, best first; ties by id. Any text is a valid query."""
        words = re.findall(r"\w+", query)[:_QUERY_WORDS]
        if not words or k < 1:
            return []
        match = " OR ".join(f'"{word}"' for word in words)
        rows = self._connection.execute(
            "SELECT d.id, d.title, round(-bm25(words, 4.0, 1.0), 6) AS score "
            "FROM words JOIN documents d ON d.rowid = words.rowid "
            "WHERE words MATCH ? ORDER BY score DESC, d.id LIMIT ?",
            (match, k),
        )
        return [Hit(id=id, title=title, score=score) for id, title, score in rows]

    def open(self, id: str) -> Document:
        """The document with this id. Raises KeyError."""
        row = self._connection.execute("SELECT id, title, text FROM documents WHERE id = ?", (id,)).fetchone()
        if row is None:
            raise KeyError(id)
        return Document(id=row[0], title=row[1], text=row[2])

    def close(self) -> None:
        self._connection.close()


def _fill(connection: sqlite3.Connection, documents: list[Document]) -> None:
    connection.executescript(
        "CREATE TABLE documents (id TEXT PRIMARY KEY, title TEXT, text TEXT);"
        "CREATE VIRTUAL TABLE words USING fts5 (title, text, content='documents', tokenize='porter unicode61');"
    )
    connection.executemany("INSERT INTO documents VALUES (?, ?, ?)", ((d.id, d.title, d.text) for d in documents))
    connection.execute("INSERT INTO words (words) VALUES ('rebuild')")
    connection.commit()

"""The knowledge graph in SQLite: concepts, edges from coarse to fine, leases, and the log of what agents proposed.

Every change is one transaction. Proposals are stored as they come and settled in the order of their nodes, so the graph
depends on what was proposed, not on who worked when: killed at any moment and resumed, it ends as if nothing had happened.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from ninefold.core.errors import UserError
from ninefold.data.synth.names import key_of

State = Literal["open", "expanding", "expanded", "atomic"]
STATES: tuple[State, ...] = ("open", "expanding", "expanded", "atomic")
SCHEMA_VERSION = 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS nodes (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, definition TEXT NOT NULL, evidence TEXT NOT NULL, domain TEXT NOT NULL,
  depth INTEGER NOT NULL, state TEXT NOT NULL, provenance TEXT NOT NULL, owner TEXT, lease REAL);
CREATE TABLE IF NOT EXISTS aliases (
  key TEXT PRIMARY KEY, alias TEXT NOT NULL, node INTEGER NOT NULL REFERENCES nodes, made INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS aliases_of ON aliases (node);
CREATE TABLE IF NOT EXISTS edges (
  coarse INTEGER NOT NULL REFERENCES nodes, fine INTEGER NOT NULL REFERENCES nodes, provenance TEXT NOT NULL,
  PRIMARY KEY (coarse, fine)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS coarser ON edges (fine);
CREATE TABLE IF NOT EXISTS proposals (node INTEGER PRIMARY KEY REFERENCES nodes, concepts TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS decisions (
  node INTEGER NOT NULL REFERENCES nodes, place INTEGER NOT NULL, name TEXT NOT NULL, decision TEXT NOT NULL,
  PRIMARY KEY (node, place)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS unsettled ON nodes (id) WHERE state IN ('open', 'expanding');
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Where a document says something."""

    url: str
    start: int
    """Offset of the first character in the document's text."""
    end: int
    sha256: str
    """Of those characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Concept:
    """What an agent found; not yet a node."""

    name: str
    aliases: tuple[str, ...] = ()
    definition: str = ""
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One concept of the graph."""

    id: int
    """Order of creation, in which nodes are expanded."""
    name: str
    aliases: tuple[str, ...]
    """Other names, sorted."""
    definition: str
    evidence: tuple[Evidence, ...]
    domain: str
    depth: int
    """Steps from a seed when it was made."""
    state: State
    provenance: str
    """Who made it, from what."""

    @property
    def hash(self) -> str:
        """Hash of what is known of the concept, whatever its id."""
        content = [self.name, self.aliases, self.definition, [asdict(e) for e in self.evidence], self.domain, self.depth]
        return _hash([*content, self.state, self.provenance])


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """From a coarse concept to a finer one."""

    coarse: str
    fine: str
    provenance: str

    @property
    def hash(self) -> str:
        return _hash([self.coarse, self.fine, self.provenance])


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A node as its agent sees it: as it was made, whatever was learned since, so that the hour of asking changes nothing."""

    names: tuple[str, ...]
    """The node's own name first."""
    path: tuple[str, ...]
    """Names from the seed down to the node."""
    depth: int
    domain: str


class Cycle(Exception):
    """The edge would close a cycle."""


class Graph:
    """A graph in one file, for any number of processes."""

    def __init__(self, path: Path) -> None:
        """Raises UserError where the file is of a newer schema or no database."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._sql = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
        try:
            self._sql.execute("PRAGMA journal_mode = WAL")
            self._sql.execute("PRAGMA synchronous = NORMAL")
            with self.transaction():
                for statement in _SCHEMA.split(";"):
                    self._sql.execute(statement)
            if self.fact("schema", str(SCHEMA_VERSION)) != str(SCHEMA_VERSION):
                raise UserError(f"{path} has a newer schema than this ninefold reads ({SCHEMA_VERSION}): update it")
        except sqlite3.DatabaseError as error:
            raise UserError(f"{path} is no knowledge graph: {error}") from None

    def close(self) -> None:
        self._sql.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, and alone among writers."""
        self._sql.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._sql.execute("ROLLBACK")
            raise
        self._sql.execute("COMMIT")

    def fact(self, name: str, value: str) -> str:
        """What the graph was first told under this name; `value` where this is the first time."""
        self._sql.execute("INSERT OR IGNORE INTO facts VALUES (?, ?)", (name, value))
        return self._one("SELECT value FROM facts WHERE name = ?", name)

    # -------------------------------------------------------------------------------------------------------- reading

    def __len__(self) -> int:
        return self._one("SELECT count(*) FROM nodes")

    def node(self, id: int) -> Node:
        """Raises KeyError."""
        row = self._sql.execute(
            "SELECT name, definition, evidence, domain, depth, state, provenance FROM nodes WHERE id = ?", (id,)
        ).fetchone()
        if row is None:
            raise KeyError(id)
        name, definition, evidence, domain, depth, state, provenance = row
        aliases = self._column("SELECT alias FROM aliases WHERE node = ? AND alias <> ? ORDER BY alias", id, name)
        return Node(
            id=id,
            name=name,
            aliases=tuple(aliases),
            definition=definition,
            evidence=tuple(Evidence(**e) for e in json.loads(evidence)),
            domain=domain,
            depth=depth,
            state=state,
            provenance=provenance,
        )

    def nodes(self) -> list[Node]:
        """All, in order of creation."""
        return [self.node(id) for id in self._column("SELECT id FROM nodes ORDER BY id")]

    def edges(self) -> list[Edge]:
        """All, in order of their ends' creation."""
        rows = self._sql.execute(
            "SELECT c.name, f.name, e.provenance FROM edges e JOIN nodes c ON c.id = coarse JOIN nodes f ON f.id = fine "
            "ORDER BY coarse, fine"
        )
        return [Edge(coarse=coarse, fine=fine, provenance=provenance) for coarse, fine, provenance in rows]

    def find(self, name: str) -> int | None:
        """The node that has this name or alias, compared as `key_of` does."""
        row = self._sql.execute("SELECT node FROM aliases WHERE key = ?", (key_of(name),)).fetchone()
        return row and row[0]

    def coarser(self, id: int) -> list[int]:
        return self._column("SELECT coarse FROM edges WHERE fine = ? ORDER BY coarse", id)

    def finer(self, id: int) -> list[int]:
        return self._column("SELECT fine FROM edges WHERE coarse = ? ORDER BY fine", id)

    def ancestors(self, id: int) -> set[int]:
        """All coarser nodes, near and far."""
        return set(
            self._column(
                "WITH RECURSIVE up (id) AS (SELECT coarse FROM edges WHERE fine = ? "
                "UNION SELECT coarse FROM edges JOIN up ON fine = up.id) SELECT id FROM up",
                id,
            )
        )

    def lineage(self, id: int) -> list[int]:
        """From a seed to the node, by the coarser node that was made first."""
        path = [id]
        while coarser := self.coarser(path[0]):
            path.insert(0, coarser[0])
        return path

    def place(self, id: int) -> Place:
        node = self.node(id)
        made = self._column("SELECT alias FROM aliases WHERE node = ? AND made AND alias <> ? ORDER BY alias", id, node.name)
        path = tuple(self.node(step).name for step in self.lineage(id))
        return Place(names=(node.name, *made), path=path, depth=node.depth, domain=node.domain)

    def names(self, *, after: int = 0) -> list[tuple[int, str]]:
        """(id, name) of the nodes made after this one, in order."""
        return self._sql.execute("SELECT id, name FROM nodes WHERE id > ? ORDER BY id", (after,)).fetchall()

    def states(self) -> dict[State, int]:
        rows = dict(self._sql.execute("SELECT state, count(*) FROM nodes GROUP BY state").fetchall())
        return {state: rows.get(state, 0) for state in STATES}

    def decisions(self) -> list[tuple[int, str, str]]:
        """(node that was expanded, name that its agent proposed, what became of it), in order."""
        return self._sql.execute("SELECT node, name, decision FROM decisions ORDER BY node, place").fetchall()

    def dump(self) -> list[str]:
        """A line of content for every node and edge, sorted."""
        nodes = [f"node {node.hash} {node.name}" for node in self.nodes()]
        return sorted(nodes + [f"edge {edge.hash} {edge.coarse} → {edge.fine}" for edge in self.edges()])

    @property
    def digest(self) -> str:
        """Hash of the dump: equal for equal graphs."""
        return _hash(self.dump())

    # -------------------------------------------------------------------------------------------------------- writing

    def add(self, concept: Concept, *, domain: str, depth: int, provenance: str) -> int:
        """A new node, open. Raises UserError where a node has its name."""
        other = self.find(concept.name)
        if other is not None:
            raise UserError(f"{self.path}: {concept.name!r} is already known as {self.node(other).name!r}")
        evidence = json.dumps([asdict(e) for e in concept.evidence])
        row = (concept.name, concept.definition, evidence, domain, depth, "open", provenance)
        cursor = self._sql.execute(
            "INSERT INTO nodes (name, definition, evidence, domain, depth, state, provenance) VALUES (?, ?, ?, ?, ?, ?, ?)", row
        )
        assert cursor.lastrowid is not None
        self._call(cursor.lastrowid, (concept.name, *concept.aliases), made=True)
        return cursor.lastrowid

    def learn(self, id: int, concept: Concept) -> None:
        """Take over aliases that nobody has, and a definition where the node has none."""
        self._call(id, (concept.name, *concept.aliases), made=False)
        evidence = json.dumps([asdict(e) for e in concept.evidence])
        self._sql.execute(
            "UPDATE nodes SET definition = ?, evidence = ? WHERE id = ? AND definition = ''", (concept.definition, evidence, id)
        )

    def connect(self, coarse: int, fine: int, *, provenance: str) -> bool:
        """Add an edge; False where it is there already. Raises Cycle.

        Within `transaction`, or else another process may close the cycle between the look and the edge.
        """
        if coarse == fine or fine in self.ancestors(coarse):
            raise Cycle
        cursor = self._sql.execute("INSERT OR IGNORE INTO edges VALUES (?, ?, ?)", (coarse, fine, provenance))
        return cursor.rowcount == 1

    def _call(self, id: int, names: Sequence[str], *, made: bool) -> None:
        """Give the node those of the names that nobody has."""
        rows = ((key_of(name), name, id, made) for name in names if key_of(name))
        self._sql.executemany("INSERT OR IGNORE INTO aliases VALUES (?, ?, ?, ?)", rows)

    # ---------------------------------------------------------------------------------------- leases and proposals

    def lease(self, owner: str, *, seconds: float, ahead: int) -> int | None:
        """The first node without proposals and without a living lease among the next `ahead`, leased to `owner`.

        A lease lives until its time is over, or its owner, if on this machine, is dead.
        """
        with self.transaction():
            now = time.time()
            rows = self._sql.execute(
                "SELECT id, owner, lease FROM nodes WHERE state IN ('open', 'expanding') ORDER BY id LIMIT ?", (ahead,)
            )
            done = set(self._column("SELECT node FROM proposals"))
            for id, holder, until in rows.fetchall():
                if id not in done and (holder is None or until < now or not _alive(holder)):
                    self._sql.execute(
                        "UPDATE nodes SET state = 'expanding', owner = ?, lease = ? WHERE id = ?", (owner, now + seconds, id)
                    )
                    return id
        return None

    @contextmanager
    def holding(self, owner: str) -> Iterator[str]:
        """What is leased to `owner` in the block and left without proposals is given back at its end."""
        try:
            yield owner
        finally:
            self._sql.execute("UPDATE nodes SET state = 'open', owner = NULL, lease = NULL WHERE owner = ?", (owner,))

    def propose(self, id: int, concepts: Sequence[Concept]) -> None:
        """Store what a node's agent found; the first proposal counts, should a lost lease lead to a second."""
        text = json.dumps([asdict(concept) for concept in concepts], ensure_ascii=False)
        self._sql.execute("INSERT OR IGNORE INTO proposals VALUES (?, ?)", (id, text))

    def proposed(self) -> tuple[int, list[Concept]] | None:
        """The first node not yet settled with its proposals; None where it has none yet, or all are settled."""
        row = self._sql.execute(
            "SELECT n.id, p.concepts FROM nodes n LEFT JOIN proposals p ON p.node = n.id "
            "WHERE state IN ('open', 'expanding') ORDER BY n.id LIMIT 1"
        ).fetchone()
        if row is None or row[1] is None:
            return None
        return row[0], [_concept(record) for record in json.loads(row[1])]

    def settle(self, id: int, decisions: Sequence[tuple[str, str]]) -> None:
        """The node is done: its proposals are forgotten, and what became of each is kept."""
        rows = [(id, place, name, decision) for place, (name, decision) in enumerate(decisions)]
        self._sql.executemany("INSERT INTO decisions VALUES (?, ?, ?, ?)", rows)
        self._sql.execute("DELETE FROM proposals WHERE node = ?", (id,))
        state: State = "expanded" if self.finer(id) else "atomic"
        self._sql.execute("UPDATE nodes SET state = ?, owner = NULL, lease = NULL WHERE id = ?", (state, id))

    def finished(self) -> bool:
        """Whether no node is left to expand."""
        return self._one("SELECT NOT EXISTS (SELECT 1 FROM nodes WHERE state IN ('open', 'expanding'))") == 1

    def _one(self, query: str, *values: Any) -> Any:
        return self._sql.execute(query, values).fetchone()[0]

    def _column(self, query: str, *values: Any) -> list[Any]:
        return [row[0] for row in self._sql.execute(query, values)]


def owner() -> str:
    """This process, as leases name it."""
    return f"{socket.gethostname()}/{os.getpid()}"


def _alive(holder: str) -> bool:
    """Whether a lease's owner may still be at work; on another machine nobody can tell."""
    host, _, pid = holder.rpartition("/")
    if host != socket.gethostname():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _concept(record: dict[str, Any]) -> Concept:
    evidence = tuple(Evidence(**e) for e in record["evidence"])
    return Concept(name=record["name"], aliases=tuple(record["aliases"]), definition=record["definition"], evidence=evidence)


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()

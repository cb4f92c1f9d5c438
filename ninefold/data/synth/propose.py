"""Who looks for finer concepts: one protocol, and the local default of rules over found documents."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from ninefold.core.config import Config
from ninefold.data.synth.definitions import Definition, definitions
from ninefold.data.synth.graph import Concept, Evidence, Node, Place
from ninefold.data.synth.library import Library, sha256
from ninefold.data.synth.names import key_of, vector, words_of
from ninefold.index import Document


class Proposer(Protocol):
    """An agent that expands nodes. What it proposes must depend on place and library alone."""

    @property
    def name(self) -> str:
        """With a version; provenance of what it proposes."""
        ...

    def propose(self, place: Place, library: Library) -> Sequence[Concept]:
        """Finer concepts, each with evidence in the library of the place's domain; none where the node is atomic."""
        ...

    def same(self, concept: Concept, node: Node) -> bool:
        """Whether a proposed concept is a known node; asked where their names are equal or alike."""
        ...


class Local(Config):
    """The default proposer."""

    hits: int = 300
    """Documents taken of each search."""
    width: int = 64
    """Most concepts proposed for one node."""
    depth: int = 8
    """Nodes so far from a seed are atomic."""
    likeness: float = 0.8
    """Cosine of two names from which they may be one."""


class Rules:
    """Searches for the node's names, and proposes what the documents found define by it."""

    name = "rules/1"

    def __init__(self, config: Local | None = None) -> None:
        self.config = config or Local()

    def propose(self, place: Place, library: Library) -> Sequence[Concept]:
        if place.depth >= self.config.depth:
            return []
        keys = {key_of(name) for name in place.names}
        found: dict[str, Concept] = {}
        for document in search(place, library, self.config.hits):
            for definition in _definitions(document):
                if keys & definition.coarser and key_of(definition.names[0]) not in keys:
                    found.setdefault(key_of(definition.names[0]), concept(document, definition))
        return list(found.values())[: self.config.width]

    def same(self, concept: Concept, node: Node) -> bool:
        """Equal names are one unless their definitions share no word; alike ones only if their definitions are alike too."""
        if not concept.definition or not node.definition or concept.evidence == node.evidence:
            return key_of(concept.name) == key_of(node.name)
        shared = words_of(concept.definition) & words_of(node.definition)
        shared -= words_of(concept.name) | words_of(node.name)
        if key_of(concept.name) == key_of(node.name):
            return bool(shared) or "." in concept.name
        if "." in concept.name + node.name or len(shared) < 3:
            return False
        names = {key_of(name) for name in (node.name, *node.aliases)}
        return (
            any(key_of(alias) in names for alias in (concept.name, *concept.aliases))
            or words_of(concept.name) == words_of(node.name)
            or self._alike(concept.name, node.name)
        )

    def _alike(self, name: str, other: str) -> bool:
        """Spelled alike, but for numbers and prefixes: float64 is not float32, and undirected is not directed."""
        words, others = words_of(name) - words_of(other), words_of(other) - words_of(name)
        if any(word.isdigit() for word in words | others):
            return False
        if any(word.endswith(end) or end.endswith(word) for word in words for end in others):
            return False
        return float(vector(name) @ vector(other)) >= self.config.likeness


def search(place: Place, library: Library, hits: int) -> list[Document]:
    """Documents on a node, the likeliest first: searches for its name, its other names, and its name beside the coarser one."""
    queries = [place.names[0], " ".join(place.names[1:]), " ".join(place.path[-2:])]
    ids = [hit.id for query in queries for hit in library.index.search(query, hits)]
    return [library.documents[id] for id in dict.fromkeys(ids)]


def concept(document: Document, definition: Definition) -> Concept:
    """A definition as a proposal, with its sentence as evidence."""
    text = document.text[definition.start : definition.end]
    evidence = Evidence(url=document.id, start=definition.start, end=definition.end, sha256=sha256(text))
    return Concept(
        name=definition.names[0], aliases=definition.names[1:], definition=" ".join(text.split()), evidence=(evidence,)
    )


@lru_cache(maxsize=50_000)
def _definitions(document: Document) -> tuple[Definition, ...]:
    return tuple(definitions(document))

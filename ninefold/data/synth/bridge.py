"""Bridges by rules: the one text that names two things which other texts define. [ours]

No words of that text are given, so no search for what the task says finds it: it takes the names of both things first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, islice

from ninefold.data.synth.draft import Draft
from ninefold.data.synth.graph import Graph, Node
from ninefold.data.synth.knowledge import BLANK, accepted, askable, blanked, gives_away, guesses, telling
from ninefold.data.synth.library import Library
from ninefold.data.synth.names import key_of, singular
from ninefold.data.synth.target import Cell
from ninefold.index import Document

FEWEST = 3
"""Texts that name a clue; with fewer one clue would do."""
MOST = 400
"""Texts that name a clue; what is named everywhere tells nothing."""
PAIRS = 64
"""Pairs of clues kept for one text."""

Words = tuple[str, ...]


def tokens(text: str) -> Words:
    """Words and numbers in one case and number, whatever stands between them."""
    return tuple(singular(word) for word in re.findall(r"[a-z]+|\d+", text.casefold()))


def called(names: Sequence[str]) -> set[Words]:
    """How a text may name a thing: by any of its names, one of a program also by its last part."""
    return {words for name in names for part in (name, name.rpartition(".")[2]) if (words := tokens(part))}


def mentions(text: str, calls: set[Words]) -> bool:
    """Whether the text names what is called so."""
    joined = f" {' '.join(tokens(text))} "
    return any(f" {' '.join(words)} " in joined for words in calls)


def plainly(text: str, names: Sequence[str]) -> bool:
    """Whether the text names a thing so that no other can be meant: by a name of several words, by the whole name of a
    function or class, or by its last part where that is no plain word."""
    for name in names:
        last = name.rpartition(".")[2]
        if last == name:
            plain = len(tokens(name)) > 1 and mentions(text, {tokens(name)})
        else:
            part = rf"|\b{re.escape(last)}\b" if _CODE.search(last) else ""
            plain = re.search(rf"(?<![\w.]){re.escape(name)}(?!\w|\.\w){part}", text) is not None
        if plain:
            return True
    return False


_CODE = re.compile(r"[a-z0-9][A-Z_]|[a-zA-Z]\d")
"""In a word that is none of English."""


@dataclass(frozen=True, kw_only=True)
class Bridges:
    """The bridges of a graph that is not grown meanwhile."""

    graph: Graph
    within: Callable[[str], Library]
    """The documents of a domain."""
    _found: dict[int, list[tuple[Node, Node]]] = field(default_factory=dict[int, "list[tuple[Node, Node]]"])
    _named: dict[str, dict[int, set[str]]] = field(default_factory=dict[str, "dict[int, set[str]]"])

    def of(self, node: Node) -> list[tuple[Node, Node]]:
        """Pairs of clues that the node's own text, and no other but those that define them, names together."""
        if node.id not in self._found:
            self._found[node.id] = list(islice(self._pairs(node), PAIRS))
        return self._found[node.id]

    def _pairs(self, node: Node) -> Iterator[tuple[Node, Node]]:
        document = self.within(node.domain).documents.get(node.evidence[0].url)
        if document is None or not about(document, node):
            return
        named, text = self._mentioned(node.domain), f"{document.title}\n{document.text}"
        clues = [id for id in named if document.id in named[id] and FEWEST <= len(named[id]) <= MOST and id != node.id]
        clues = [id for id in clues if plainly(text, (self._clues[id].name, *self._clues[id].aliases))]
        near = self._near(node)
        for a, b in combinations(clues, 2):
            defining = {evidence.url for id in (a, b) for evidence in self._clues[id].evidence}
            related = near & {a, b} and document.id not in defining
            if related and (named[a] & named[b]) - defining == {document.id} and self._closed(a, b, node):
                yield self._clues[a], self._clues[b]

    def _closed(self, a: int, b: int, node: Node) -> bool:
        """Whether the quotes of two clues name nothing of the bridge."""
        nodes = (self._clues[a], self._clues[b], node)
        quotes = [blanked(clue, nodes) for clue in nodes[:2]]
        names = [name for one in nodes for name in (one.name, *one.aliases)]
        return all(map(telling, quotes)) and not any(gives_away(quote, name) for quote in quotes for name in names)

    def _near(self, node: Node) -> set[int]:
        """Related nodes: coarser ones, near and far, the next finer ones, and siblings."""
        beside = {id for above in self.graph.coarser(node.id) for id in self.graph.finer(above)}
        return self.graph.ancestors(node.id) | set(self.graph.finer(node.id)) | beside

    @cached_property
    def _clues(self) -> dict[int, Node]:
        """Nodes whose definitions say enough to know them by."""
        nodes = [node for node in self.graph.nodes() if node.evidence and askable(node)]
        return {node.id: node for node in nodes}

    def _mentioned(self, domain: str) -> dict[int, set[str]]:
        """Clue → addresses of the domain's documents that name it."""
        if domain not in self._named:
            documents = self.within(domain).documents
            calls: dict[str, list[tuple[Words, int]]] = {}
            for id, clue in self._clues.items():
                for words in called((clue.name, *clue.aliases)) if clue.evidence[0].url in documents else ():
                    calls.setdefault(words[0], []).append((words, id))
            named: dict[int, set[str]] = {}
            for document in documents.values():
                text = tokens(f"{document.title}\n{document.text}")
                for i, word in enumerate(text):
                    for words, id in calls.get(word, ()):
                        if text[i : i + len(words)] == words:
                            named.setdefault(id, set()).add(document.id)
            self._named[domain] = dict(sorted(named.items()))
        return self._named[domain]


def about(document: Document, node: Node) -> bool:
    """Whether the document as a whole is on the node."""
    return key_of(document.title.partition(",")[0]) == key_of(node.name)


def bridge(cell: Cell, nodes: Sequence[Node], graph: Graph, documents: tuple[Document, ...]) -> Draft | str:
    """A draft on two clues and the node whose text names both, in this order; or why there is none."""
    *clues, node = nodes
    quotes = [blanked(clue, nodes) for clue in clues]
    urls = [url for one in nodes for url in dict.fromkeys(evidence.url for evidence in one.evidence)]
    sources = sorted(set(urls))
    beside = [graph.node(id) for id in graph.finer(graph.coarser(node.id)[0]) if id != node.id][:3]
    given = {"answer": [node.name], "sources": sources}
    wrong = [{**given, "answer": [other.name]} for other in (*clues, *beside)]
    wrong += [
        {**given, "sources": sources[:-1]},
        {**given, "answer": [node.name, clues[0].name]},
        {**given, "answer": node.name},
    ]
    return Draft(
        cell=cell,
        nodes=tuple(one.name for one in nodes),
        instruction=_instruction(cell, quotes),
        quotes=tuple(quotes),
        hidden=tuple(name for one in nodes for name in (one.name, *one.aliases)),
        file="answer.json",
        gold=json.dumps(given, ensure_ascii=False),
        expected={"answer": [accepted(node, documents)], "sources": sources},
        evidence=tuple(evidence for one in nodes for evidence in one.evidence),
        documents=documents,
        guesses=tuple(guesses(cell, quotes, sources, 1)),
        mutants=tuple(json.dumps(mutant, ensure_ascii=False) for mutant in wrong),
        clues=tuple((clue.name, *clue.aliases) for clue in clues),
    )


def _instruction(cell: Cell, quotes: Sequence[str]) -> str:
    blanks = f"({BLANK} stands for a name that is not given.) " if any(BLANK in quote for quote in quotes) else ""
    return (
        f"The folder documents/ holds texts on {cell.domain}; the first line of each is its address, the second its title.\n"
        "Two things are defined or documented in these words, each in a text of its own:\n\n"
        f'- the first: "{quotes[0]}"\n- the second: "{quotes[1]}"\n\n'
        f"{blanks}Just one other text names both of them, each by one of its names, in the "
        "singular or plural, a function or class perhaps by the last part of its name alone. What does that text define or "
        "document? Write answer.json with its full name as that text's title gives it, and the addresses of that text and of "
        'those that define the two: {"answer": ["…"], "sources": ["doc://…"]}\n'
    )

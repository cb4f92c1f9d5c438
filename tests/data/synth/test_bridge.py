"""Bridges: what names a thing, the one text that names two, and that no search for the quotes finds it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ninefold.data.corpus.filters import Contamination
from ninefold.data.synth.bridge import Bridges, bridge, called, mentions, plainly
from ninefold.data.synth.checks.knowledge import judge
from ninefold.data.synth.draft import Draft
from ninefold.data.synth.fields import Field
from ninefold.data.synth.gates import Gates
from ninefold.data.synth.graph import Graph
from ninefold.data.synth.grow import Growth, grow
from ninefold.data.synth.library import Library
from ninefold.data.synth.propose import Rules
from ninefold.data.synth.target import Cell
from ninefold.data.synth.weak import Searcher
from ninefold.index import Document

CELL = Cell("ropes", "coarse", "knowledge", "bridge")
TEXTS = {
    "bow hitch": "A bow hitch is a knot that sailors tie round a smooth mast in calm water.",
    "reef bend": "A reef bend is a knot which joins cords of equal thickness under load.",
    "toggle": "A toggle is a knot with a stick through it. Begin it as a bow hitch, and end it like a reef bend.",
    "lanyard": "A lanyard is a knot with many strands. It starts from a bow hitch.",
    "becket": "A becket is a knot at an eye. It may replace a reef bend.",
    "sennit": "A sennit is a knot of plaited strands, in no way like others.",
}


def library(texts: dict[str, str]) -> Library:
    return Library.of(Document(id=f"doc://knots/1/{name}.txt", title=name, text=text) for name, text in texts.items())


def drawn(folder, texts: dict[str, str]) -> tuple[Graph, Bridges]:
    graph, documents = Graph(folder / "g.sqlite"), library(texts)
    grow(graph, documents, Rules(), Growth(fields={"ropes": Field(seeds=("knot",))}))
    return graph, Bridges(graph=graph, within=lambda _: documents)


def draft_of(graph: Graph, bridges: Bridges, texts: dict[str, str]) -> Draft:
    node = graph.node(graph.find("toggle") or 0)
    (clues,) = bridges.of(node)
    made = bridge(CELL, (*clues, node), graph, tuple(library(texts).documents.values()))
    assert isinstance(made, Draft)
    return made


@pytest.mark.parametrize(
    ("text", "names", "named", "plain"),
    [
        ("Two Reef-Bends here", ["reef bend"], True, True),
        ("a reef and a bend", ["reef bend"], False, False),
        ("see os.path.split_all for more", ["posixpath.split_all"], True, True),
        ("we split the rest", ["posixpath.split"], True, False),
        ("from posixpath.split.more", ["posixpath.split"], True, False),
        ("posixpath.split does it", ["posixpath.split"], True, True),
        ("a knot", ["knot"], True, False),
    ],
)
def test_names(text, names, named, plain):
    assert mentions(text, called(names)) == named
    assert plainly(text, names) == plain


def test_one_text_alone_names_both(tmp_path):
    graph, bridges = drawn(tmp_path, TEXTS)
    found = {node.name: [{a.name, b.name} for a, b in bridges.of(node)] for node in graph.nodes() if node.evidence}
    assert {name for name, pairs in found.items() if pairs} == {"toggle"}
    assert found["toggle"] == [{"bow hitch", "reef bend"}]


def test_a_second_text_that_names_both_ends_it(tmp_path):
    graph, bridges = drawn(tmp_path, TEXTS | {"sennit": TEXTS["sennit"] + " Unlike a bow hitch or a reef bend."})
    assert not any(bridges.of(node) for node in graph.nodes() if node.evidence)


def test_gates_of_a_bridge(tmp_path):
    graph, bridges = drawn(tmp_path, TEXTS)
    made = draft_of(graph, bridges, TEXTS)
    assert judge(json.loads(made.gold), dict(made.expected))
    assert not any(judge(json.loads(answer), dict(made.expected)) for answer in (*made.guesses, *made.mutants))
    gates = Gates(library=library(TEXTS), runtime=None, contamination=Contamination([]))  # pyright: ignore[reportArgumentType]
    assert gates._one_search(made) is None
    few = tuple(document for document in made.documents if document.title in made.nodes)
    assert "a search for" in (gates._one_search(replace(made, documents=few)) or "")
    other = Document(id="doc://knots/1/other.txt", title="other", text="Neither bow hitch nor reef bend.")
    assert gates._unique(made) is None
    assert gates._unique(replace(made, documents=(*made.documents, other))) == "2 documents name both clues"


def test_the_searcher_needs_both_names(tmp_path):
    graph, bridges = drawn(tmp_path, TEXTS)
    made = draft_of(graph, bridges, TEXTS)
    tries = Searcher(6).attempts(made, 12)
    assert tries == Searcher(6).attempts(made, 12)
    assert any(judge(json.loads(text), dict(made.expected)) for text in tries)
    apart = tuple(document for document in made.documents if document.title != "reef bend")
    alone = Searcher(6).attempts(replace(made, documents=apart), 12)
    assert not any(judge(json.loads(text), dict(made.expected)) for text in alone)

"""Growth: the same graph whoever worked when, and however often it was killed; every node has a parent and its evidence."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from ninefold.core.errors import UserError
from ninefold.data.synth.graph import Concept, Evidence, Graph, Node
from ninefold.data.synth.grow import Growth, grow
from ninefold.data.synth.library import Library, sha256
from ninefold.data.synth.propose import Rules
from ninefold.index import Document
from tests.data.synth.plants import GROWTH, NAMES, library

PROGRAM = (sys.executable, "-m", "tests.data.synth.plants")


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    graph = Graph(tmp_path_factory.mktemp("graph") / "g.sqlite")
    grow(graph, library(), Rules(), GROWTH)
    yield graph
    graph.close()


def test_grows_what_the_documents_say(grown):
    assert grown.finished()
    assert {node.name for node in grown.nodes()} == {"words", *NAMES}
    decisions = [decision for _, _, decision in grown.decisions()]
    assert {"new", "reused", "cycle refused"} <= set(decisions)


def test_every_node_but_a_seed_has_a_parent_and_evidence(grown):
    documents = library().documents
    for node in grown.nodes():
        assert (node.depth == 0) == (not grown.coarser(node.id))
        assert node.state == ("expanded" if grown.finer(node.id) else "atomic")
        for evidence in node.evidence:
            assert sha256(documents[evidence.url].text[evidence.start : evidence.end]) == evidence.sha256
        assert node.evidence or node.depth <= 1


@pytest.mark.parametrize("workers", [3])
def test_agents_at_once_change_nothing(grown, tmp_path, workers):
    graph = Graph(tmp_path / "g.sqlite")
    grow(graph, library(), Rules(), GROWTH.model_copy(update={"workers": workers}))
    assert graph.dump() == grown.dump()


def test_killed_and_resumed(grown, tmp_path):
    """Two processes at once, one of them killed again and again."""
    path = tmp_path / "g.sqlite"
    for _ in range(2):
        process = subprocess.Popen([*PROGRAM, str(path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _ in range(3):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
    beside = subprocess.Popen([*PROGRAM, str(path)], stdout=subprocess.DEVNULL)
    graph = Graph(path)
    assert not graph.finished(), "killed before its end"
    grow(graph, library(), Rules(), GROWTH)
    assert beside.wait() == 0
    assert graph.dump() == grown.dump()


def test_stops_at_its_number_and_goes_on(grown, tmp_path):
    graph = Graph(tmp_path / "g.sqlite")
    grow(graph, library(), Rules(), GROWTH.model_copy(update={"nodes": 12}))
    assert 12 <= len(graph) < len(grown)
    grow(graph, library(), Rules(), GROWTH)
    assert graph.dump() == grown.dump()


def test_other_documents_are_refused(tmp_path):
    graph = Graph(tmp_path / "g.sqlite")
    grow(graph, library(), Rules(), GROWTH)
    other = Library.of([Document(id="doc://plants/2/x", title="x", text="An x is a thing.")])
    with pytest.raises(UserError, match="other documents"):
        grow(graph, other, Rules(), GROWTH)


def test_two_senses_of_a_name(tmp_path):
    texts = {"slope": "A bank is a slope beside water.", "firm": "A bank is a firm that lends money."}
    documents = [Document(id=f"doc://d/1/{key}.txt", title=key, text=text) for key, text in texts.items()]
    graph = Graph(tmp_path / "g.sqlite")
    growth = Growth.model_validate({"fields": {"words": {"seeds": ["slope", "firm"]}}})
    grow(graph, Library.of(documents), Rules(), growth)
    assert [node.name for node in graph.nodes()][3:] == ["bank", "bank (firm)"]


def test_same():
    def said(name: str, text: str, *aliases: str) -> Concept:
        evidence = Evidence(url="doc://d/1/" + sha256(text), start=0, end=len(text), sha256=sha256(text))
        return Concept(name=name, aliases=aliases, definition=text, evidence=(evidence,))

    definition = "splitting a matrix into a product of simple factors"
    cases = [
        ("matrix factorization", "matrix factorisation", definition, True),
        ("factorization of matrices", "matrix factorization", definition, True),
        ("float32", "float64", definition, False),
        ("undirected graph", "directed graph", definition, False),
        ("matrix factorization", "matrix factorisation", "a village in Kent", False),
        ("torch.nn.Conv1d", "torch.nn.Conv1d", "another sentence", True),
        ("torch.nn.Conv1d", "torch.nn.Conv2d", definition, False),
    ]
    for name, other, text, same in cases:
        node = _node(said(other, "x: " + definition))
        assert Rules().same(said(name, text), node) == same, (name, other)


def _node(concept: Concept) -> Node:
    return Node(
        id=1,
        name=concept.name,
        aliases=concept.aliases,
        definition=concept.definition,
        evidence=concept.evidence,
        domain="d",
        depth=1,
        state="open",
        provenance="test",
    )

"""The graph: acyclic whatever comes in whatever order, one node a name, leases, and proposals settled in order."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninefold.core.errors import UserError
from ninefold.data.synth.graph import Concept, Cycle, Graph
from ninefold.data.synth.names import key_of

WORDS = st.sampled_from(["graph", "Graphs", "a graph", "tree", "trees", "the Tree", "eigen-value", "eigen value", "ring"])


def seed(graph: Graph, *names: str) -> list[int]:
    return [graph.add(Concept(name=name), domain="d", depth=0, provenance="test") for name in names]


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=40))
def test_acyclic_in_any_order(pairs):
    """The naive twin is networkx: an edge is refused exactly when it would close a cycle, repeats leave things as they are."""
    twin = nx.DiGraph()
    with TemporaryDirectory() as folder:
        graph = Graph(Path(folder, "g.sqlite"))
        ids = seed(graph, *(f"concept {i}x" for i in range(8)))
        twin.add_nodes_from(ids)
        for coarse, fine in ((ids[a], ids[b]) for a, b in pairs):
            closes = coarse == fine or nx.has_path(twin, fine, coarse)
            with graph.transaction():
                if closes:
                    with pytest.raises(Cycle):
                        graph.connect(coarse, fine, provenance="test")
                else:
                    assert graph.connect(coarse, fine, provenance="test") == (not twin.has_edge(coarse, fine))
                    twin.add_edge(coarse, fine)
            assert graph.ancestors(fine) == nx.ancestors(twin, fine)
        assert nx.is_directed_acyclic_graph(twin)
        assert len(graph.edges()) == twin.number_of_edges()
        graph.close()


@settings(max_examples=25)
@given(st.lists(st.tuples(WORDS, st.lists(WORDS, max_size=3)), max_size=8))
def test_one_node_a_name(concepts):
    with TemporaryDirectory() as folder:
        graph = Graph(Path(folder, "g.sqlite"))
        for name, aliases in concepts:
            concept = Concept(name=name, aliases=tuple(aliases))
            known = graph.find(name)
            if known is None:
                graph.add(concept, domain="d", depth=0, provenance="test")
            else:
                graph.learn(known, concept)
                with pytest.raises(UserError, match="already known"):
                    graph.add(concept, domain="d", depth=0, provenance="test")
        names = [key_of(name) for node in graph.nodes() for name in (node.name, *node.aliases)]
        assert len(names) == len(set(names))
        assert all(graph.find(name) == node.id for node in graph.nodes() for name in (node.name, *node.aliases))
        graph.close()


def test_a_failed_transaction_leaves_nothing(tmp_path):
    graph = Graph(tmp_path / "g.sqlite")
    with pytest.raises(UserError), graph.transaction():
        seed(graph, "one", "one")
    assert len(graph) == 0
    assert graph.find("one") is None


def test_leases(tmp_path):
    graph = Graph(tmp_path / "g.sqlite")
    first, second, third = seed(graph, "first", "second", "third")
    assert graph.lease("elsewhere/1", seconds=60, ahead=2) == first
    assert graph.lease("elsewhere/2", seconds=0, ahead=2) == second
    assert graph.lease("elsewhere/3", seconds=60, ahead=2) == second, "a lease whose time is over is taken over"
    assert graph.lease("elsewhere/4", seconds=60, ahead=2) is None, "nobody works further ahead than asked"
    graph.propose(second, [Concept(name="finer")])
    assert graph.proposed() is None, "the first node comes first"
    graph.propose(first, [])
    graph.propose(first, [Concept(name="late")])
    assert graph.proposed() == (first, [])
    graph.settle(first, [])
    assert graph.node(first).state == "atomic"
    assert graph.proposed() == (second, [Concept(name="finer")])
    with graph.holding("here/5") as holder:
        assert graph.lease(holder, seconds=60, ahead=2) == third
        assert graph.node(third).state == "expanding"
    assert graph.node(third).state == "open", "what is given up without proposals is open again"


def test_content_decides_the_digest(tmp_path):
    one, other = Graph(tmp_path / "one.sqlite"), Graph(tmp_path / "other.sqlite")
    for graph in (one, other):
        coarse, fine = seed(graph, "coarse", "fine")
        graph.connect(coarse, fine, provenance="test")
    assert one.digest == other.digest
    other.learn(2, Concept(name="fine", aliases=("delicate",)))
    assert one.digest != other.digest
    assert len(set(one.dump()) & set(other.dump())) == 2, "the edge and the other node are as before"


def test_no_database(tmp_path):
    (tmp_path / "g.sqlite").write_text("not a database, but long enough to be told from one " * 40)
    with pytest.raises(UserError, match="no knowledge graph"):
        Graph(tmp_path / "g.sqlite")

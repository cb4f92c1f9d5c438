"""The graph bench: its stand-in answers by what it is shown, duplicates and precision are those of cases made by hand."""

from __future__ import annotations

import importlib
import json
import sys
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest

from ninefold.data.synth.endpoint import Chat, Endpoint
from ninefold.data.synth.graph import Graph
from ninefold.data.synth.grow import grow
from ninefold.data.synth.propose import Rules
from tests.data.synth.plants import GROWTH, NAMES, library

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    sys.path.insert(0, str(BENCH))
    try:
        return importlib.import_module("graph")
    finally:
        sys.path.remove(str(BENCH))


def test_the_stand_in_grows_what_the_rules_grow(bench, tmp_path):
    knower = bench.Knower(library=library())
    with bench.serving(knower) as url, closing(Graph(tmp_path / "g.sqlite")) as graph:
        grow(graph, library(), Endpoint(Chat(url=f"{url}/v1", model="rules")), GROWTH)
        known = {node.name for node in graph.nodes()}
    with closing(Graph(tmp_path / "rules.sqlite")) as graph:
        grow(graph, library(), Rules(), GROWTH)
        assert known <= {node.name for node in graph.nodes()} == {"words", *NAMES}
    assert len(known) > len(NAMES) / 2
    assert knower.calls == sum(knower.asked[kind] for kind in ("queries", "concepts", "same"))


def test_what_a_text_does_not_show_is_not_answered(bench):
    knower = bench.Knower(library=library())
    name = NAMES[5]
    url = f"doc://plants/1/{name}.txt"
    kind = library().documents[url].text.split(" is a ")[1].split()[0]
    asked = f'Concept: "{kind}", on the path x, in words. These documents were found:\n\n[{url}] {name}\n'
    for text, found in ((library().documents[url].text, [name]), ("Nothing of note.", [])):
        answer = knower.chat({"messages": [{"role": "user", "content": f"{asked}{text}\n\nList the concepts that"}]})
        assert [one["name"] for one in json.loads(answer["content"])["concepts"]] == found


def test_duplicates_and_orphans(bench):
    said = "A ring is a band of metal worn on a finger"
    nodes = [["d", "", 0], ["seed", "", 1], ["ring", said, 2], ["Rings", said, 2], ["ring", "A ring is a sound of bells", 2]]
    figures = bench.measured(nodes, [("seed", "ring")], [0, 1, 1, 2, 0], start=1)
    assert (figures["grown"], figures["duplicates"], figures["orphans"], figures["several parents"]) == (3, 1, 1, 1)


def test_precision_has_wilsons_interval(bench, tmp_path):
    tasks = [{"task": str(i), "flaws": ["unique"] if i < 5 else []} for i in range(50)]
    (tmp_path / "read.json").write_text(json.dumps({"tasks": tasks}))
    figures = bench.precision(tmp_path / "read.json")
    assert (figures["read"], figures["good"], figures["flaws"]) == (50, 45, {"unique": 5})
    assert figures["interval"] == [0.786, 0.957]

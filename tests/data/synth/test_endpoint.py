"""The endpoint as agent: what it asks, what it takes over, and answers from a cassette."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from ninefold.core.errors import EngineError, UserError
from ninefold.data.synth.cassette import Cassette
from ninefold.data.synth.endpoint import Chat, Endpoint
from ninefold.data.synth.graph import Graph, Place
from ninefold.data.synth.grow import Growth, grow
from ninefold.data.synth.library import Library
from ninefold.index import Document

URL = "doc://d/1/graphs.txt"
LIBRARY = Library.of(
    [Document(id=URL, title="graphs", text="A bipartite graph is a graph\nof two halves. A star is a tree with one hub.")]
)
PLACE = Place(names=("graph",), path=("mathematics", "graph"), depth=1, domain="mathematics")


def concept(name: str, quote: str, source: str = URL) -> dict[str, object]:
    return {"name": name, "aliases": ["bigraph"], "source": source, "quote": quote}


def answer(content: str) -> dict[str, object]:
    return {"choices": [{"message": {"content": content}}]}


def scripted(concepts: list[dict[str, object]]):
    """An endpoint that has two queries and these concepts for "graph", and none for anything else."""

    def ask(request):
        prompt = request["messages"][0]["content"]
        if "queries" in prompt:
            return answer('Here you are:\n```json\n{"queries": ["bipartite", "star"]}\n```')
        if "Are these one" in prompt:
            return answer('{"same": true}')
        return answer(json.dumps({"concepts": concepts if 'Concept: "graph"' in prompt else []}))

    return ask


def test_takes_only_what_the_documents_say():
    listed = [
        concept("bipartite graph", "A bipartite graph is a graph of two halves."),
        concept("invented", "An invented sentence of no document."),
        concept("elsewhere", "A star is a tree with one hub.", "doc://d/1/other"),
        concept("graph", "A star is a tree with one hub."),
        {"name": "no quote"},
        "no record",
    ]
    found = Endpoint(Chat(model="m"), scripted(listed)).propose(PLACE, LIBRARY)
    assert [(c.name, c.aliases) for c in found] == [("bipartite graph", ("bigraph",))]
    evidence = found[0].evidence[0]
    assert LIBRARY.documents[URL].text[evidence.start : evidence.end] == "A bipartite graph is a graph\nof two halves."


def test_recorded_and_replayed(tmp_path):
    """A replay asks nobody and grows the same graph; without the cassette's answer it says so."""
    growth = Growth.model_validate({"fields": {"mathematics": {"seeds": ["graph"]}}})
    chat = Chat(model="m", cassette=str(tmp_path / "tape.jsonl"))
    ask = scripted([concept("bipartite graph", "A bipartite graph is a graph of two halves.")])
    graphs = [Graph(tmp_path / name) for name in ("recorded.sqlite", "replayed.sqlite")]
    replay = chat.model_copy(update={"mode": "replay"})
    grow(graphs[0], LIBRARY, Endpoint(chat, ask), growth)
    grow(graphs[1], LIBRARY, Endpoint(replay), growth)
    assert graphs[0].dump() == graphs[1].dump()
    assert graphs[0].find("bigraphs") is not None
    with pytest.raises(UserError, match="record it"):
        Endpoint(replay).propose(Place(names=("tree",), path=("tree",), depth=1, domain="mathematics"), LIBRARY)


def test_lines_of_a_cassette(tmp_path):
    """What a kill tore is asked again; what somebody broke is told."""
    path = tmp_path / "tape.jsonl"
    Cassette(path, lambda request: {"n": request["n"]})({"n": 1})
    whole = path.read_text()
    path.write_text(whole + '{"key": "torn')
    assert Cassette(path)({"n": 1}) == {"n": 1}
    assert path.read_text() == whole
    path.write_text(whole + '{"key": "broken"}\n')
    with pytest.raises(UserError, match="line 2"):
        Cassette(path)


def test_no_json():
    calls = []
    endpoint = Endpoint(Chat(model="m"), lambda request: calls.append(request["seed"]) or answer("I cannot"))
    with pytest.raises(EngineError, match="no JSON"):
        endpoint.propose(PLACE, LIBRARY)
    assert calls == [0, 1]


def test_over_http(monkeypatch):
    """A real server: the path, the key, and a refusal told from a failure."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append((self.path, self.headers["Authorization"], body["model"]))
            status = 200 if body["model"] == "m" else 404
            data = json.dumps(answer('{"queries": [], "concepts": []}')).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("KEY_OF_TEST", "secret")
    chat = Chat(url=f"http://127.0.0.1:{server.server_port}/v1", model="m", key="KEY_OF_TEST")
    try:
        assert Endpoint(chat).propose(PLACE, LIBRARY) == []
        assert seen[0] == ("/v1/chat/completions", "Bearer secret", "m")
        with pytest.raises(UserError, match="refuses"):
            Endpoint(chat.model_copy(update={"model": "other"})).propose(PLACE, LIBRARY)
    finally:
        server.shutdown()
        server.server_close()

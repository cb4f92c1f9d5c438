"""A deterministic stand-in for a model and a search engine, behind the endpoints that agents of a knowledge graph ask.

`Knower` answers OpenAI's chat completions by the rules of `ninefold.data.synth` and by what the request itself shows, never by
documents that the asker has not read: definitions for finer concepts, one judgement of what is the same for everybody. It
speaks to our `Endpoint` proposer in plain messages and to endless-learning in tool calls.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ninefold.data.synth.definitions import definitions
from ninefold.data.synth.graph import Concept, Evidence, Node
from ninefold.data.synth.library import Library, sha256
from ninefold.data.synth.names import key_of
from ninefold.data.synth.propose import Rules
from ninefold.index import Document

MOST = 8
"""Finer concepts named at once, to whoever asks: as many as endless-learning asks for."""
SNIPPET = 120

Answer = dict[str, Any]
"""An assistant message."""


@dataclass(kw_only=True)
class Knower:
    """Counts what it is asked, by the kind of request."""

    library: Library
    asked: Counter[str] = field(default_factory=Counter[str])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def calls(self) -> int:
        """Chat completions so far."""
        return sum(count for kind, count in self.asked.items() if kind not in ("search", "fetch"))

    def chat(self, request: dict[str, Any]) -> Answer:
        messages = request["messages"]
        prompt = messages[0]["content"]
        for kind, mark, answer in (
            ("queries", "You map the concepts", self._queries),
            ("concepts", "These documents were found", self._concepts),
            ("same", "Are these one concept?", self._same),
            ("expansion", "You are expanding one node", self._expansion),
            ("dedup", "A concept graph may already contain", self._dedup),
        ):
            if mark in prompt:
                with self._lock:
                    self.asked[kind] += 1
                return answer(prompt, messages)
        raise ValueError(f"no rule answers {prompt[:80]!r}")

    # ------------------------------------------------------------------------------------------------ for our proposer

    def _queries(self, prompt: str, messages: list[Answer]) -> Answer:
        name, path = re.findall(r'"(.+?)"', prompt)[0], prompt.partition("on the path ")[2].partition(".\n")[0]
        return _json({"queries": [name, " ".join(path.split(" → ")[-2:])]})

    def _concepts(self, prompt: str, messages: list[Answer]) -> Answer:
        name = re.findall(r'"(.+?)"', prompt)[0]
        parts = re.split(
            r"(?m)^\[(doc://\S+)\] ", prompt.partition("documents were found:")[2].rpartition("List the concepts")[0]
        )
        shown = [(url, text.partition("\n")[2].rstrip()) for url, text in zip(parts[1::2], parts[2::2])]
        found = finer(name, [Document(id=u, title=self.library.documents[u].title, text=text) for u, text in shown])
        listed = [{"name": c.name, "aliases": c.aliases, "source": c.evidence[0].url, "quote": c.definition} for c in found]
        return _json({"concepts": listed})

    def _same(self, prompt: str, messages: list[Answer]) -> Answer:
        sides = re.findall(r'(?m)^[AB]: "(.*?)": (.*)$', prompt)
        return _json({"same": len(sides) == 2 and same(*sides[0], *sides[1])})

    # ------------------------------------------------------------------------------------------- for endless-learning

    def _expansion(self, prompt: str, messages: list[Answer]) -> Answer:
        """Two searches, then all that was found, then what it defines."""
        name = prompt.partition("Node: ")[2].partition("\n")[0]
        parent = prompt.partition("Parent concepts: ")[2].partition("\n")[0].partition(", ")[0]
        results = [message["content"] for message in messages if message["role"] == "tool"]
        turn = sum(message["role"] == "assistant" for message in messages)
        if turn == 0:
            queries = [name] if parent.startswith("(") else [name, f"{parent} {name}"]
            return _calls([("search", {"query": query}) for query in queries])
        urls = list(dict.fromkeys(re.findall(r"(?m)^   (doc://\S+)$", "\n".join(results))))
        if turn == 1 and urls:
            return _calls([("fetch", {"url": url}) for url in urls])
        texts = results[-len(urls) :] if urls else []
        found = finer(name, [Document(id=u, title=self.library.documents[u].title, text=t) for u, t in zip(urls, texts)])
        children = [{"name": c.name, "description": c.definition, "aliases": list(c.aliases)} for c in found]
        return _calls([("submit", {"atomic": not children, "children": children, "reasoning": "what was read defines these"})])

    def _dedup(self, prompt: str, messages: list[Answer]) -> Answer:
        proposed, _, candidates = prompt.partition("Existing candidates:")
        name, description = _labelled(proposed, "name"), _labelled(proposed, "description")
        for candidate in re.split(r"(?m)^- id: ", candidates)[1:]:
            if same(name, description, _labelled(candidate, "name"), _labelled(candidate, "description")):
                return _calls([("submit", {"same_as": candidate.partition("\n")[0].strip(), "reason": "one definition"})])
        return _calls([("submit", {"same_as": None, "reason": "no candidate is defined so"})])

    # ----------------------------------------------------------------------------------------------------- the search

    def search(self, query: str, k: int) -> list[dict[str, str]]:
        with self._lock:
            self.asked["search"] += 1
            hits = self.library.index.search(query, k)
        texts = [self.library.documents[hit.id].text for hit in hits]
        return [{"url": hit.id, "title": hit.title, "snippet": text[:SNIPPET]} for hit, text in zip(hits, texts)]

    def fetch(self, url: str) -> str:
        with self._lock:
            self.asked["fetch"] += 1
        return self.library.documents[url].text


def finer(name: str, documents: list[Document]) -> list[Concept]:
    """What the texts define by the name, each with its sentence; the first MOST."""
    key, found = key_of(name), dict[str, Concept]()
    for document in documents:
        for one in definitions(document):
            if key in one.coarser and key_of(one.names[0]) != key:
                said = document.text[one.start : one.end]
                evidence = Evidence(url=document.id, start=one.start, end=one.end, sha256=sha256(said))
                concept = Concept(name=one.names[0], aliases=one.names[1:], definition=said, evidence=(evidence,))
                found.setdefault(key_of(one.names[0]), concept)
    return list(found.values())[:MOST]


def same(name: str, definition: str, other: str, known: str) -> bool:
    """One judgement for everybody: that of the rules, where either definition may have been cut."""
    definition, known = " ".join(definition.split()), " ".join(known.split())
    shorter = min(len(definition), len(known))
    if shorter >= SNIPPET and definition[:shorter] == known[:shorter]:
        return key_of(name) == key_of(other)
    node = Node(id=0, name=other, aliases=(), definition=known, evidence=_said(known), domain="", depth=1, state="open",
                provenance="")  # fmt: skip
    return Rules().same(Concept(name=name, definition=definition, evidence=_said(definition)), node)


def _said(text: str) -> tuple[Evidence, ...]:
    return (Evidence(url="", start=0, end=len(text), sha256=sha256(text)),)


def _labelled(text: str, label: str) -> str:
    found = re.search(rf"(?ms)^  {label}: (.*?)(?=^  [a-z]+: |^- id|\n\n|\Z)", text)
    return found[1].strip() if found else ""


def _json(value: dict[str, Any]) -> Answer:
    return {"role": "assistant", "content": json.dumps(value, ensure_ascii=False)}


def _calls(calls: list[tuple[str, dict[str, Any]]]) -> Answer:
    made = [
        {"id": f"call_{i}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for i, (name, arguments) in enumerate(calls)
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


@contextmanager
def serving(knower: Knower) -> Iterator[str]:
    """The address of an HTTP server: /v1/chat/completions, /search and /fetch."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path.endswith("/chat/completions"):
                answer: Any = {"choices": [{"message": knower.chat(asked), "finish_reason": "stop"}]}
            elif self.path == "/search":
                answer = knower.search(asked["query"], asked["k"])
            else:
                answer = knower.fetch(asked["url"])
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

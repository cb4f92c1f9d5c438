"""A model behind an OpenAI-compatible endpoint as the agent of each node."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ninefold.core.config import Config
from ninefold.core.errors import EngineError, UserError, boundary
from ninefold.data.synth.cassette import Ask, Cassette
from ninefold.data.synth.graph import Concept, Evidence, Node, Place
from ninefold.data.synth.library import Library, sha256
from ninefold.data.synth.names import key_of, vector
from ninefold.index import Document

_WAITS = (1.0, 4.0, 16.0)
"""Seconds before a failed request is sent again."""
_READS = 2
"""Times that a model may try to answer in JSON."""

_SEARCH = """You map the concepts of {domain}. The concept at hand is "{name}", on the path {path}.
Write three short queries that find documents on its finer concepts: kinds, parts, methods, instances.
Answer in JSON alone: {{"queries": ["…", "…", "…"]}}"""
_EXPAND = """Concept: "{name}", on the path {path}, in {domain}. These documents were found:

{documents}

List the concepts that are strictly finer than "{name}" and that one of these documents explains. Give each its usual name,
its other names, and the one sentence, copied word for word, of the document that says what it is. List none if it is atomic.
Answer in JSON alone:
{{"concepts": [{{"name": "…", "aliases": ["…"], "source": "doc://…", "quote": "…"}}]}}"""
_SAME = """Are these one concept?
A: "{name}": {definition}
B: "{other}": {known}
Answer in JSON alone: {{"same": true}} or {{"same": false}}"""


class Chat(Config):
    """An endpoint that speaks OpenAI's chat completions."""

    url: str = "http://127.0.0.1:8000/v1"
    model: str = ""
    key: str = "OPENAI_API_KEY"
    """Environment variable that holds the key; no key is sent where it is not set."""
    cassette: str = ""
    """File of recorded answers."""
    mode: Literal["record", "replay"] = "record"
    """With a cassette: ask what is not recorded, or never ask."""
    timeout_s: float = 120.0
    hits: int = 6
    """Documents shown for each query."""
    characters: int = 1200
    """Shown of each document."""
    depth: int = 8
    """Nodes so far from a seed are atomic."""
    likeness: float = 0.5
    """Cosine of two names from which the model is asked whether they are one concept."""


class Endpoint:
    """Asks a model for queries, shows it what they find, and takes the concepts whose quotes stand in the documents."""

    def __init__(self, config: Chat, ask: Ask | None = None) -> None:
        """`ask` stands in for the endpoint where given."""
        self.config = config
        self.name = f"endpoint/1 {config.model}"
        self._ask = asker(config, ask)

    def propose(self, place: Place, library: Library) -> Sequence[Concept]:
        if place.depth >= self.config.depth:
            return []
        known = {"name": place.names[0], "path": " → ".join(place.path), "domain": place.domain}
        queries = [q for q in _list(self._json(_SEARCH.format(**known)).get("queries")) if isinstance(q, str)]
        ids = [hit.id for query in [place.names[0], *queries[:3]] for hit in library.index.search(query, self.config.hits)]
        found = {id: library.documents[id] for id in dict.fromkeys(ids)}
        if not found:
            return []
        shown = "\n\n".join(f"[{id}] {d.title}\n{d.text[: self.config.characters]}" for id, d in found.items())
        records = _list(self._json(_EXPAND.format(**known, documents=shown)).get("concepts"))
        concepts = [concept for record in records if (concept := _grounded(record, found)) is not None]
        return [concept for concept in concepts if key_of(concept.name) not in map(key_of, place.names)]

    def same(self, concept: Concept, node: Node) -> bool:
        if concept.evidence == node.evidence or not node.definition:
            return key_of(concept.name) == key_of(node.name)
        if float(vector(concept.name) @ vector(node.name)) < self.config.likeness:
            return False
        asked = _SAME.format(name=concept.name, definition=concept.definition, other=node.name, known=node.definition)
        return self._json(asked).get("same") is True

    def _json(self, prompt: str) -> dict[str, Any]:
        """The object in the model's answer. Raises EngineError where there is none, asked twice."""
        messages = [{"role": "user", "content": prompt}]
        for attempt in range(_READS):
            answer = self._ask({"model": self.config.model, "messages": messages, "temperature": 0.0, "seed": attempt})
            text = said(answer)
            try:
                value = json.loads(text[text.find("{") : text.rfind("}") + 1])
            except ValueError:
                continue
            if isinstance(value, dict):
                return value
        raise EngineError(f"{self.config.model} gave no JSON, asked {_READS} times: {prompt[:80]!r}")


def asker(config: Chat, ask: Ask | None = None) -> Ask:
    """Sends requests to the endpoint, or to `ask` in its place, through the cassette where there is one."""
    sent = ask or partial(post, config)
    if not config.cassette:
        return sent
    return Cassette(Path(config.cassette), None if config.mode == "replay" else sent)


def said(answer: dict[str, Any]) -> str:
    """The text of an endpoint's answer; empty where it has none."""
    try:
        return str(answer["choices"][0]["message"]["content"] or "")
    except (KeyError, IndexError, TypeError):
        return ""


def post(config: Chat, request: dict[str, Any]) -> dict[str, Any]:
    """Raises EngineError where the endpoint fails to the last, UserError where it refuses the request."""
    import httpx  # not needed by the default proposer

    key = os.environ.get(config.key)
    url = f"{config.url.rstrip('/')}/chat/completions"
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    reason = ""
    for wait in (*_WAITS, None):
        try:
            reply = httpx.post(url, json=request, headers=headers, timeout=config.timeout_s)
        except httpx.HTTPError as error:
            reason = f"{type(error).__name__}: {error}"
        else:
            if reply.status_code < 400:
                with boundary(EngineError, f"{url} answered"):
                    return reply.json()
            reason = f"status {reply.status_code}: {reply.text[:200]}"
            if reply.status_code not in {408, 409, 429} and reply.status_code < 500:
                raise UserError(f"{url} refuses the request, {reason}; see the keys url, model and key under chat")
        if wait is not None:
            time.sleep(wait)
    raise EngineError(f"{url} fails again and again, {reason}")


def _grounded(record: Any, found: dict[str, Document]) -> Concept | None:
    """A listed concept whose quote stands in the document that it names, white space aside; else None."""
    if not isinstance(record, dict) or not all(isinstance(record.get(k), str) for k in ("name", "source", "quote")):
        return None
    document = found.get(record["source"].strip("[] "))
    words = record["quote"].split()
    if document is None or len(words) < 3 or not key_of(record["name"]):
        return None
    place = re.search(r"\s+".join(map(re.escape, words)), document.text)
    if place is None:
        return None
    evidence = Evidence(url=document.id, start=place.start(), end=place.end(), sha256=sha256(place[0]))
    aliases = tuple(alias for alias in _list(record.get("aliases")) if isinstance(alias, str))
    return Concept(name=record["name"].strip(), aliases=aliases, definition=" ".join(words), evidence=(evidence,))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []

"""A reading room: search, open, and a record of what was shown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ninefold.agent.env.calls import refusal
from ninefold.core.protocols import Observation, Tool
from ninefold.core.types import Call, Task
from ninefold.index import Document, Index

TOOLS: tuple[Tool, ...] = (
    Tool(name="search", description="Documents that hold the words: id and first sentence.", parameters={"query": "string"}),
    Tool(name="open", description="The text of a document.", parameters={"id": "string"}),
)

HITS = 5
"""Results of one search."""


class ResearchWorld:
    """The documents are the task's; only what was shown changes."""

    def __init__(self, task: Task, shown: Sequence[str]) -> None:
        self._index = Index.build(Document(**document) for document in task.data["documents"])
        self._shown = list(shown)

    def call(self, call: Call) -> Observation:
        refused = refusal(call, TOOLS)
        if refused is not None:
            return Observation(text=refused)
        if call.tool == "search":
            return Observation(text=self._search(call.arguments["query"]))
        return Observation(text=self._open(call.arguments["id"].strip()))

    def _search(self, query: str) -> str:
        hits = self._index.search(query, HITS)
        for hit in hits:
            self._show(hit.id)
        return "\n".join(f"{hit.id} {hit.title} ." for hit in hits) or "nothing"

    def _open(self, id: str) -> str:
        try:
            text = self._index.open(id).text
        except KeyError:
            return "error: no such document"
        self._show(id)
        return text

    def _show(self, id: str) -> None:
        if id not in self._shown:
            self._shown.append(id)

    def final(self, response: str | None) -> Mapping[str, Any]:
        """The last response, and the ids of the documents that were shown."""
        return {"response": response, "shown": self._shown}

    def save(self) -> bytes:
        return json.dumps(self._shown).encode()

    def close(self) -> None:
        self._index.close()

"""Runs under the interpreter of the real endless-learning (`make referees`): grows its graph against local endpoints.

Usage: python graph_endless.py FOLDER URL SEEDS(json) CALLS CHILDREN; prints one JSON object.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
from endless_learning.corpus.store import CorpusStore
from endless_learning.harness.builtin import BuiltinHarness
from endless_learning.kg.expand import Expander, ExpansionConfig, ExpansionStats
from endless_learning.kg.models import Node
from endless_learning.kg.store import GraphStore
from endless_learning.llm.openai_compat import OpenAICompatClient
from endless_learning.retrieval.base import Document, SearchResult
from endless_learning.retrieval.cache import CachedBackend


class Spent(BaseException):
    """The budget is used up; none of `Exception`, which the harness takes for a failure of the provider."""


class Client(OpenAICompatClient):
    """Its client, with an end."""

    left: int

    def complete(self, **asked: Any) -> Any:
        if not self.left:
            raise Spent
        self.left -= 1
        return super().complete(**asked)


class Backend:
    """Its search protocol, spoken to the local search."""

    name = "local"

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=300)

    def _post(self, path: str, asked: dict[str, Any]) -> Any:
        return self._client.post(path, json=asked).raise_for_status().json()

    def search(self, query: str, k: int = 10) -> list[SearchResult]:
        return [SearchResult(rank=i, **hit) for i, hit in enumerate(self._post("/search", {"query": query, "k": k}))]

    def fetch(self, url: str) -> Document:
        return Document(url=url, content=self._post("/fetch", {"url": url}))


def main() -> None:
    folder, url, seeds, calls, children = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), *map(int, sys.argv[4:6])
    os.environ["OPENAI_API_KEY"] = "none"
    folder.mkdir(parents=True)
    store, backend = GraphStore(folder / "graph.sqlite"), Backend(url)
    cached = CachedBackend(backend, folder / "cache.sqlite", CorpusStore(folder / "corpus"))
    client = Client(model="rules", base_url=f"{url}/v1")
    client.left = calls
    harness: Any = BuiltinHarness(client)
    config = ExpansionConfig(budget_nodes=1_000_000, max_children=children)
    expander = Expander(store=store, search=cached, expansion_harness=harness, dedup_harness=harness, config=config)
    expander.add_seeds([Node(name=name) for name in seeds])
    stats = ExpansionStats()
    with suppress(Spent):
        expander.run(stats)
    store.recompute_depths()
    nodes = store.all_nodes()
    print(
        json.dumps(
            {
                "stats": stats.as_dict(),
                "nodes": [[node.name, node.description, node.depth] for node in nodes],
                "edges": [[nodes[i].name, child.name] for i in range(len(nodes)) for child in store.children(nodes[i].id)],
                "parents": [len(store.parents(node.id)) for node in nodes],
            }
        )
    )


if __name__ == "__main__":
    main()

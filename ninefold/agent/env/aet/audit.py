"""Audit: find the entries that break the rules; whoever accuses one that does not is wrong about its whole page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from ninefold.agent.env.aet import books, modules, sessions
from ninefold.agent.env.aet.kind import Data
from ninefold.agent.env.aet.page import Records
from ninefold.core.protocols import SandboxRuntime

_DRAWS = (books.sums, books.balances, books.invoices, sessions.log, modules.library)
"""What is audited at each level."""
_LEAST = 0.6
"""Share of the hidden pages that hold a defect, and of those that hold entries without: whoever accuses nobody or everybody is
right about no more than the others."""


class Audit:
    """An input of a scenario is a page; its outcome the entries of it that are wrong."""

    name = "audit"

    def draw(self, rng: Random, level: int) -> dict[str, Any]:
        """Pages that the oracle shows on demand (levels 0 and 1) or that lie in the working directory."""
        while True:
            records = _DRAWS[level](rng)
            visible = max(1, len(records.pages) // 4)
            wrong = [bool(page.wrong) for page in records.pages]
            mixed = [page.wrong != page.ids for page in records.pages]
            least = _LEAST * len(wrong[visible:])
            if all(wrong[:visible]) and sum(wrong[visible:]) >= least and sum(mixed[visible:]) >= least:
                return _data(records, visible, filed=level > 1)

    def key(self, data: Data) -> str:
        return json.dumps([data["pages"], data["texts"]])

    def brief(self, data: Data) -> str:
        names, ids = [page["name"] for page in data["pages"]], [id for page in data["pages"] for id in page["ids"]]
        like = f"submit like {ids[0]} {ids[-1]} ."
        if data["texts"]:
            return f"{data['rules']} Read {', '.join(data['texts'])} . Which entries are wrong ? {like}"
        return f"{data['rules']} Probe pages {names[0]} to {names[-1]} . Which entries are wrong ? {like}"

    def files(self, data: Data) -> Mapping[str, str]:
        return data["texts"]

    def probe(self, data: Data, asked: str, noise: Random) -> str:
        page = next((page for page in data["pages"] if page["name"] == asked.strip()), None)
        return page["text"] if page and page["text"] else "error: no such page"

    def inputs(self, data: Data, part: str) -> list[Any]:
        names = [page["name"] for page in data["pages"]]
        return {"visible": names[: data["visible"]], "hidden": names[data["visible"] :]}.get(part, names)

    def outcomes(self, data: Data, inputs: Sequence[Any]) -> list[Any]:
        return [page["wrong"] for page in _chosen(data, inputs)]

    def predict(self, data: Data, answer: str, inputs: Sequence[Any], runtime: SandboxRuntime | None) -> list[Any] | None:
        accused = set(answer.replace(",", " ").split())
        if not accused or accused - {id for page in data["pages"] for id in page["ids"]}:
            return None
        return [json.dumps([id for id in page["ids"] if id in accused]) for page in _chosen(data, inputs)]

    def told(self, given: Any, predicted: Any, right: Any) -> str:
        found = json.loads(predicted)
        missed, false = len(set(right) - set(found)), len(set(found) - set(right))
        return f"page {given} : {missed} missed , {false} accused falsely"

    def gold(self, data: Data) -> str:
        return " ".join(id for page in data["pages"] for id in page["wrong"])


def _data(records: Records, visible: int, *, filed: bool) -> dict[str, Any]:
    pages = [
        {"name": page.name, "text": "" if filed else page.text, "ids": list(page.ids), "wrong": list(page.wrong)}
        for page in records.pages
    ]
    texts = {page.name: page.text for page in records.pages} | dict(records.beside) if filed else {}
    return {
        "rules": records.rules,
        "pages": pages,
        "texts": texts,
        "visible": visible,
        "probes": 0 if filed else len(pages) + 2,
    }


def _chosen(data: Data, names: Sequence[Any]) -> list[Mapping[str, Any]]:
    return [page for page in data["pages"] if page["name"] in names]

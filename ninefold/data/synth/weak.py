"""Weak policies: a task is worth training on where they pass sometimes, and not always."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import closing
from random import Random
from typing import Literal, Protocol

from ninefold.core.config import Config
from ninefold.core.seeds import rng_of
from ninefold.data.synth.bridge import called, mentions
from ninefold.data.synth.cassette import Ask
from ninefold.data.synth.coding import program
from ninefold.data.synth.definitions import definitions
from ninefold.data.synth.draft import Draft
from ninefold.data.synth.endpoint import Chat, asker, said
from ninefold.data.synth.names import words_of
from ninefold.index import Document, Index

BETWEEN = 6
"""Hits that the searcher looks into for two names."""
_ASKED = """{instruction}
You cannot run anything. These are the texts of documents/:

{documents}

Answer with the content of {file} alone, in one fenced block."""


class Weak(Config):
    """Who tries a task before it is kept."""

    policy: Literal["searcher", "endpoint"] = "searcher"
    attempts: int = 12
    words: int = 6
    """Of a quote that the searcher looks for at once, at most; its first attempt looks for one, and each for one more."""
    chat: Chat = Chat()


class Policy(Protocol):
    """Tries tasks, knowing the instruction and the documents alone."""

    def attempts(self, draft: Draft, count: int) -> list[str]:
        """Contents of the file that the task asks for; fixed by the draft and their place."""
        ...


def policy_of(config: Weak) -> Policy:
    return Model(config.chat) if config.policy == "endpoint" else Searcher(config.words)


class Searcher:
    """Looks for some words of each quote, few and then more, and takes what it finds first for what is meant."""

    def __init__(self, words: int) -> None:
        self._words = words

    def attempts(self, draft: Draft, count: int) -> list[str]:
        with closing(Index.build(draft.documents)) as index:
            return [self._attempt(draft, index, number) for number in range(count)]

    def _attempt(self, draft: Draft, index: Index, number: int) -> str:
        rng = rng_of("searcher", draft.id, number)
        found = [_find(index, _drawn(quote, 1 + number % self._words, rng)) for quote in draft.quotes]
        if draft.clues:
            found.append(_between(index, found))
        names = [name for _, name in found]
        if draft.cell.type == "coding":
            return program([name for name in names if "." in name] or ["builtins.str"], "[{}]")
        return json.dumps({"answer": names[len(draft.quotes) :] or names, "sources": [url for url, _ in found]})


def _find(index: Index, query: str) -> tuple[str, str]:
    """(address, name) of the first hit: what it is about, or defines most nearly in the words asked for."""
    hits = index.search(query, 1)
    return (hits[0].id, _read(index.open(hits[0].id), query)) if hits else ("", "")


def _between(index: Index, found: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Of what a search for both names finds, the first that holds both."""
    calls = [called([name]) for _, name in found]
    for hit in index.search(" ".join(name.rpartition(".")[2] for _, name in found), BETWEEN):
        document = index.open(hit.id)
        if hit.id not in {url for url, _ in found} and all(mentions(document.text, words) for words in calls):
            return hit.id, _read(document, hit.title)
    return "", ""


def _drawn(quote: str, count: int, rng: Random) -> str:
    words = sorted(words_of(quote))
    return " ".join(rng.sample(words, min(count, len(words))))


def _read(document: Document, query: str) -> str:
    found = list(definitions(document))
    if not found:
        return document.title
    asked = words_of(query)
    return max(found, key=lambda one: len(asked & words_of(document.text[one.start : one.end]))).names[0]


class Model:
    """A model behind an endpoint that reads the documents and answers at once."""

    def __init__(self, config: Chat, ask: Ask | None = None) -> None:
        self._config, self._ask = config, asker(config, ask)

    def attempts(self, draft: Draft, count: int) -> list[str]:
        """What the last fenced block of each answer holds; empty where it has none."""
        shown = "\n\n".join(f"{d.id}\n{d.title}\n\n{d.text[: self._config.characters]}" for d in draft.documents)
        prompt = _ASKED.format(instruction=draft.instruction, documents=shown, file=draft.file)
        request = {"model": self._config.model, "messages": [{"role": "user", "content": prompt}], "temperature": 1.0}
        answers = [said(self._ask({**request, "seed": number})) for number in range(count)]
        return [blocks[-1] if (blocks := re.findall(r"```\w*\n(.*?)```", answer, re.DOTALL)) else "" for answer in answers]

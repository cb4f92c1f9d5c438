"""Rule heuristics, exact deduplication and decontamination. Each step says why it drops a document."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Set

from ninefold.core.config import Config
from ninefold.data.corpus.document import Document

NGRAM = 13
"""Words in a row that, shared with a task, make a document contaminated."""


class Rules(Config):
    """Heuristics against text that teaches nothing."""

    min_characters: int = 200
    min_letters: float = 0.3
    """Share of characters that are letters."""
    max_line: int = 2000
    """Longest line in characters: binary blobs and minified code."""
    max_repetition: float = 0.4
    """Largest share of non-empty lines that repeat an earlier one: logs, tables."""


def rejected(document: Document, rules: Rules) -> str | None:
    """The first rule that the document breaks, or None."""
    text = document.text
    if len(text) < rules.min_characters:
        return "short"
    if "\ufffd" in text or "\x00" in text:
        return "binary"
    if sum(c.isalpha() for c in text) < rules.min_letters * len(text):
        return "few letters"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if max(map(len, lines)) > rules.max_line:
        return "long line"
    if 1 - len(set(lines)) / len(lines) > rules.max_repetition:
        return "repetition"
    return None


class Contamination:
    """Texts of tasks that no document may hold."""

    def __init__(self, task_texts: Iterable[str], *, ngram: int = NGRAM) -> None:
        """`ngram` words in a row betray a text that has as many; a shorter one must stand there whole."""
        self._ngram = ngram
        self._texts: dict[tuple[str, ...], list[str]] = {}
        self._ngrams: set[tuple[str, ...]] = set()
        for text in task_texts:
            words = _words(text)
            if len(words) >= ngram:
                self._ngrams.update(_ngrams(words, ngram))
            elif words:
                self._texts.setdefault(tuple(words[:3]), []).append(" ".join(words))

    def __contains__(self, text: str) -> bool:
        """Whether `text` holds a task: `ngram` words in a row of a long one, or a short one whole."""
        words = _words(text)
        if not self._ngrams.isdisjoint(_ngrams(words, self._ngram)):
            return True
        joined = " ".join(words)
        starts: Set[tuple[str, ...]] = self._texts.keys() & {t for n in (1, 2, 3) for t in _ngrams(words, n)}
        return any(f" {task} " in f" {joined} " for start in starts for task in self._texts[start])


def clean(
    documents: Iterable[Document], rules: Rules, contamination: Contamination, dropped: Counter[str]
) -> Iterator[Document]:
    """Documents that pass the rules, are no copy of an earlier one and hold no task; the others are counted by reason."""
    seen: set[str] = set()
    for document in documents:
        reason = rejected(document, rules)
        if reason is None and document.hash in seen:
            reason = "duplicate"
        if reason is None and document.text in contamination:
            reason = "holds a task"
        if reason is not None:
            dropped[f"{document.domain}: {reason}"] += 1
            continue
        seen.add(document.hash)
        yield document


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]+|\d|[^\sa-z\d]", text.casefold())


def _ngrams(words: list[str], n: int) -> Iterator[tuple[str, ...]]:
    return (tuple(words[i : i + n]) for i in range(len(words) - n + 1))

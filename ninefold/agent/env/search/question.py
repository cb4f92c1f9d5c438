"""Questions that exactly one document answers, and that the index can find."""

from __future__ import annotations

import re
from functools import cache
from random import Random
from typing import Literal, NamedTuple

from ninefold.agent.env.search.library import Entry, library
from ninefold.core.seeds import rng_of, split_of
from ninefold.core.types import Split

Kind = Literal["title", "blank", "related"]
KINDS: tuple[Kind, ...] = ("title", "blank", "related")
"""What is asked, by level."""
BLANK = "___"
HITS = 5
"""Results of one search."""
_QUOTED = 7
"""Words of a quotation."""


class Question(NamedTuple):
    """What is asked of the library; JSON."""

    kind: str
    quote: str
    """Words of the quoted document, one of them blanked out where that is the question."""
    source: str
    """Id of the quoted document."""
    cited: str
    """Id of the document that holds the answer: the quoted one, or the first that it refers to."""
    answer: str

    @property
    def text(self) -> str:
        """The question in words."""
        if self.kind == "title":
            return f'Which entry says "{self.quote}"? Open it, then answer with its title.'
        if self.kind == "blank":
            return f'Which word stands for {BLANK} in "{self.quote}"? Answer with the word and the entry, like: word [12]'
        return (
            f'Some entry says "{self.quote}". Open the first entry under its "See also". '
            "Answer with the third word of that entry's text and the entry, like: word [12]"
        )

    @property
    def response(self) -> str:
        """The right response."""
        return self.answer if self.kind == "title" else f"{self.answer} [{self.cited}]"


def question(split: Split, level: int, seed: int) -> Question:
    """A question of the split; which split follows from the quoted document."""
    kind, rng = KINDS[level], rng_of("search", level, seed, split)
    sources = _sources(kind, split)
    while True:
        made = _ask(kind, rng.choice(sources), rng)
        if made is not None:
            return made


def pattern(quote: str) -> re.Pattern[str]:
    """Matches the quote, whatever the case; group 1 is the blank where it has one."""
    return re.compile(re.escape(quote).replace(re.escape(BLANK), r"([A-Za-z]+)"), re.IGNORECASE)


@cache
def _sources(kind: Kind, split: Split) -> tuple[Entry, ...]:
    """The split's entries that have a sentence to quote and, where that is asked, a See Also that search can follow."""
    entries = [e for e in library().entries.values() if split_of(e.title) == split and _quotable(e)]
    if kind == "related":
        entries = [e for e in entries if e.related and _third(_first(e)).isalpha() and _found(_first(e).title, e.related[0])]
    return tuple(entries)


def _ask(kind: Kind, entry: Entry, rng: Random) -> Question | None:
    """A question on `entry`; None where another entry answers it too, or no search finds it."""
    words = rng.choice(_quotable(entry))
    start = rng.randrange(len(words) - _QUOTED + 1)
    words = words[start : start + _QUOTED]
    answer, cited = entry.title, entry.id
    if kind == "blank":
        place = max(range(2, _QUOTED - 2), key=lambda i: len(words[i]))
        answer = words[place]
        words = [*words[:place], BLANK, *words[place + 1 :]]
    elif kind == "related":
        cited = entry.related[0]
        answer = _third(_first(entry))
    quote = " ".join(words)
    alone = library().holding(pattern(quote)) == [entry] and len(pattern(quote).findall(entry.prose)) == 1
    if not alone or not _found(quote, entry.id):
        return None
    return Question(kind=kind, quote=quote, source=entry.id, cited=cited, answer=answer)


def _quotable(entry: Entry) -> list[list[str]]:
    split = [sentence.split(" ") for sentence in entry.sentences]
    return [words for words in split if len(words) >= _QUOTED]


def _first(entry: Entry) -> Entry:
    return library().entries[entry.related[0]]


def _third(entry: Entry) -> str:
    return (entry.prose.split(" ") + [""] * 3)[2]


def _found(query: str, id: str) -> bool:
    return id in [hit.id for hit in library().index.search(query, HITS)]

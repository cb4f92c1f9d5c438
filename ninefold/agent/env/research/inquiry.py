"""Deep research: questions that lead from one document to the next, and the claims that answer them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from random import Random
from typing import NamedTuple

from ninefold.agent.env.research.stacks import Entry, see_also, stacks

DEPTHS: tuple[tuple[int, ...], ...] = ((0, 1, 1, 2), (1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3))
"""Hops of each question, by level beyond those of `assignment`."""
_WORDS = 8
"""Of the quote that a question begins with."""
_TRIVIAL = ("None", "np._NoValue", "_NoValue")
"""Defaults that are not asked for."""
_ORDINALS = ("1st", "2nd", "3rd", "4th", "5th", "6th")

FORM = (
    'Write one claim a line and nothing else: - CLAIM [ID "SPAN"], where SPAN stands word for word in the opened document ID '
    "and holds what is claimed. CLAIM is either A refers to B (full titles, for each step from one entry to the next) or the "
    "default of P in A is V (V as in the signature). A claim that is not supported, or not asked for, costs."
)


class Wanted(NamedTuple):
    """A claim that the report must make."""

    text: str
    cited: str
    """Id of the document that supports it."""
    marks: tuple[str, ...]
    """What a span that supports it must hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    """One question: where it starts, which way it goes, what it asks for."""

    quote: str
    """Stands in the first entry alone."""
    places: tuple[int, ...]
    """Which name of the See Also is followed at each step, from 0."""
    titles: tuple[str, ...]
    """Entries on the way."""
    parameter: str

    @property
    def text(self) -> str:
        steps = [f"go to the {_ORDINALS[place]} name of its See Also" for place in self.places]
        way = f" From there {', then '.join(steps)}." if steps else ""
        return f'Start at the entry that says "{self.quote}".{way} What is the default of the parameter {self.parameter}?'

    def wanted(self) -> list[Wanted]:
        """The claims that answer it."""
        entries = [stacks().entries[title] for title in self.titles]
        steps = [Wanted(refers(a.title, b.title), a.id, (_short(b.title),)) for a, b in pairwise(entries)]
        last, value = entries[-1], entries[-1].defaults[self.parameter]
        return [*steps, Wanted(has_default(self.parameter, last.title, value), last.id, (self.parameter, value))]


def refers(source: str, target: str) -> str:
    """The claim that one entry's See Also names another."""
    return f"{source} refers to {target}"


def has_default(parameter: str, title: str, value: str) -> str:
    """The claim that a parameter has a default."""
    return f"the default of {parameter} in {title} is {value}"


def _short(title: str) -> str:
    return title.rpartition(".")[2]


def draw(rng: Random, depths: Sequence[int]) -> list[Trail]:
    """Questions of these depths, no two with a claim in common."""
    trails: list[Trail] = []
    stated: set[str] = set()
    for depth in depths:
        while True:
            trail = _trail(rng, depth)
            claims = {wanted.text for wanted in trail.wanted()} if trail else set[str]()
            if trail and not claims & stated:
                break
        trails.append(trail)
        stated |= claims
    return trails


def _trail(rng: Random, depth: int) -> Trail | None:
    """None where the way that was drawn leads nowhere."""
    entry = first = rng.choice(_starts())
    places: list[int] = []
    titles = [entry.title]
    for _ in range(depth):
        open_steps = [(place, title) for place, title in _steps(entry.title) if title not in titles]
        if not open_steps:
            return None
        place, title = rng.choice(open_steps)
        places.append(place)
        titles.append(title)
        entry = stacks().entries[title]
    asked = [name for name, value in entry.defaults.items() if value not in _TRIVIAL]
    quote = _quote(rng, first)
    if not asked or quote is None:
        return None
    return Trail(quote=quote, places=tuple(places), titles=tuple(titles), parameter=rng.choice(asked))


@cache
def _starts() -> list[Entry]:
    return [entry for entry in stacks().entries.values() if len(entry.prose.split()) > 2 * _WORDS]


@cache
def _steps(title: str) -> list[tuple[int, str]]:
    """(place, title) of each name of an entry's See Also that is an entry."""
    entry = stacks().entries[title]
    known = {_short(related): related for related in entry.related}
    names = see_also(entry.text)[: len(_ORDINALS)]
    return [(place, known[name]) for place, name in enumerate(names) if name in known and names.count(name) == 1]


def _quote(rng: Random, entry: Entry) -> str | None:
    """Words in a row that stand in no other entry."""
    words = entry.prose.split()
    first = rng.randrange(len(words) - _WORDS)
    quote = " ".join(words[first : first + _WORDS])
    if not re.fullmatch(r"[A-Za-z][A-Za-z ,.-]+", quote):
        return None
    return quote if _windows()[quote] == 1 else None


@cache
def _windows() -> Counter[str]:
    """How often so many words stand in a row, over all entries."""
    prose = [entry.prose.split() for entry in stacks().entries.values()]
    return Counter(" ".join(words[n : n + _WORDS]) for words in prose for n in range(len(words) - _WORDS + 1))

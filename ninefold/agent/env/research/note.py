"""Notes: claims with citations, and whether they hold."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ninefold.agent.env.research.facts import sentences
from ninefold.core.types import Result

_CLAIM = re.compile(r"[\s.]*([^\[\]]{1,200}?)\s*\[(\w{1,8})\][\s.]*")


class Claim(NamedTuple):
    """One cited sentence of a note."""

    sentence: str
    cited: str
    """Id of a document."""


def parse(note: str) -> list[Claim] | None:
    """The claims of a note like `Ann is in Rome [3] . Bob has tea [5]`; None where anything stands uncited."""
    claims: list[Claim] = []
    place = 0
    while place < len(note):
        found = _CLAIM.match(note, place)
        if found is None:
            return None
        claims.append(Claim(" ".join(found[1].split()), found[2]))
        place = found.end()
    return claims


def write(claims: Sequence[tuple[str, str]]) -> str:
    """The note that makes these claims: (sentence, id)."""
    return " . ".join(f"{sentence} [{cited}]" for sentence, cited in claims)


def judge(note: object, wanted: Sequence[str], texts: Mapping[str, str], shown: Sequence[str]) -> Result:
    """Share of the wanted sentences that the note claims; nothing if it claims anything else, or cites amiss.

    Each claim must be a whole sentence of the document it cites, and that document must have been shown to the
    researcher. So a note that lists every possibility, hedges, or cites at random earns nothing.
    """
    claims = parse(note) if isinstance(note, str) else None
    if not claims:
        return Result(status="fail", detail="not a note of cited claims")
    for claim in claims:
        if claim.sentence not in wanted:
            return Result(status="fail", detail=f"not asked for, or not so: {claim.sentence!r}")
        if claim.cited not in shown or claim.sentence not in sentences(texts.get(claim.cited, "")):
            return Result(status="fail", detail=f"document {claim.cited} was not read or does not say {claim.sentence!r}")
    stated = [claim.sentence for claim in claims]
    if len(set(stated)) < len(stated):
        return Result(status="fail", detail="a claim is made twice")
    share = len(stated) / len(wanted)
    return Result(status="pass" if share == 1 else "fail", score=share, detail=f"{len(stated)} of {len(wanted)} facts")

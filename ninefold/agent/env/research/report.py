"""Reports: claims with citations down to the span, and how faithful they are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ninefold.agent.env.research.inquiry import Wanted
from ninefold.core.types import Result

MOST_UNSUPPORTED = 1 / 3
"""Share of unsupported claims from which on a report is worth nothing."""
LONGEST = 300
"""Characters of a span: whoever quotes the whole document points at nothing."""

_CLAIM = re.compile(r'- (.{1,300}?) \[(\d{1,6}) "(.{1,2000})"\]')


class Claim(NamedTuple):
    """One line of a report."""

    text: str
    cited: str
    """Id of a document."""
    span: str
    """What is quoted of it."""


def parse(report: str) -> list[Claim] | None:
    """The claims of a report; None where a line is none."""
    claims: list[Claim] = []
    for line in report.splitlines():
        if line.strip():
            found = _CLAIM.fullmatch(line.strip())
            if found is None:
                return None
            claims.append(Claim(_plain(found[1]), found[2], _plain(found[3])))
    return claims


def write(claims: Sequence[tuple[str, str, str]]) -> str:
    """The report that makes these claims: (text, id, span)."""
    return "\n".join(f'- {text} [{cited} "{span}"]' for text, cited, span in claims)


def is_supported(claim: Claim, wanted: Wanted | None, texts: Mapping[str, str], opened: Sequence[str]) -> bool:
    """Whether it was asked for, and the span stands in the right document, was seen there, and holds what is claimed."""
    if wanted is None or claim.cited != wanted.cited or claim.cited not in opened or len(claim.span) > LONGEST:
        return False
    return claim.span in _plain(texts[claim.cited]) and all(_holds(claim.span, mark) for mark in wanted.marks)


def judge(report: object, wanted: Sequence[Wanted], texts: Mapping[str, str], opened: Sequence[str]) -> Result:
    """Share of the wanted claims that are made and supported, times 1 − hallucination rate: the share of all claims that are
    not. With too many of those, and for whatever is no report of cited claims, nothing. A claim made twice counts once."""
    claims = parse(report) if isinstance(report, str) else None
    if not claims:
        return Result(status="fail", detail="not a report of cited claims")
    if len({claim.text for claim in claims}) < len(claims):
        return Result(status="fail", detail="a claim is made twice")
    known = {one.text: one for one in wanted}
    supported = sum(is_supported(claim, known.get(claim.text), texts, opened) for claim in claims)
    unsupported = 1 - supported / len(claims)
    contradicted = Counter(map(_subject, (claim.text for claim in claims)))
    if unsupported >= MOST_UNSUPPORTED or any(count > 1 for subject, count in contradicted.items() if subject):
        return Result(status="fail", detail=f"{unsupported:.0%} of the claims are unsupported, or two contradict each other")
    score = supported / len(wanted) * (1 - unsupported)
    detail = f"{supported} of {len(wanted)} claims, {unsupported:.0%} of those made unsupported"
    return Result(status="pass" if score == 1 else "fail", score=score, detail=detail)


def _subject(text: str) -> str:
    """What a claim on a default is about; empty for other claims."""
    return text.partition(" is ")[0] if text.startswith("the default of ") else ""


def _holds(span: str, mark: str) -> bool:
    """Whether a mark stands in a span as words of its own."""
    return re.search(rf"(?<!\w){re.escape(mark)}(?!\w)", span) is not None


def _plain(text: str) -> str:
    return " ".join(text.split())

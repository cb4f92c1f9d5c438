"""What an answer says, and what it is worth.

Partial marks begin where an answer is more than half right [ours]: boxes around everything, texts of the right length and the
commonest number earn nothing. Full marks need the very word, text or number; of boxes, points and outlines, which nobody hits
to the pixel, nine tenths. [ours]
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ninefold.agent.env.visual.question import Form
from ninefold.agent.reward.visual import (
    Box,
    Point,
    box_f1,
    count_agreement,
    mask_iou,
    point_f1,
    polygon_mask,
    text_agreement,
)

HALF, ENOUGH = 0.5, 0.9
"""Agreement up to which nothing is earned; from which boxes, points and outlines pass."""
LONGER = 1.25
"""So many times the wanted text's length a text may have: more is talk around it."""
LONGEST = 4_096
"""Characters of an answer."""
MOST = 64
"""Boxes, points or corners of an answer."""
FAR = 10_000
"""Largest coordinate."""

Answer = str | int | list[list[float]]


def parsed(form: Form, response: str) -> Answer | None:
    """What a response says; None where it is not of the form."""
    text = response.strip()
    if not text or len(text) > LONGEST:
        return None
    if form == "word":
        return text.lower()
    if form == "text":
        return " ".join(text.upper().split())
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if form == "number":
        return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**9 else None
    return _rows(value, 4 if form == "boxes" else 2)


def _rows(value: Any, length: int) -> list[list[float]] | None:
    if not isinstance(value, list) or not 1 <= len(value) <= MOST:
        return None
    for row in value:
        if not isinstance(row, list) or len(row) != length:
            return None
        if not all(isinstance(n, int | float) and not isinstance(n, bool) and abs(n) <= FAR for n in row):
            return None
    return [[float(n) for n in row] for row in value]


def agreement(form: Form, answered: Answer, wanted: Any, *, off: float, side: int) -> float:
    """In [0, 1]; `off` as in `Question`, `side` that of the picture."""
    if isinstance(answered, str):
        wanted = str(parsed(form, wanted))
        if form == "word" or len(answered) > LONGER * len(wanted):
            return float(answered == wanted)
        return text_agreement(answered, wanted)
    if isinstance(answered, int):
        return count_agreement(answered, wanted, off)
    if form == "boxes":
        return box_f1(_boxes(answered), _boxes(wanted))
    if form == "points":
        return point_f1(_points(answered), _points(wanted), off)
    return mask_iou(*(polygon_mask(_points(corners), side, side) for corners in (answered, wanted)))


def passes(form: Form, agreed: float) -> bool:
    """Whether so much agreement is full marks."""
    return agreed >= (ENOUGH if form in ("boxes", "points", "polygon") else 1.0)


def meant(form: Form, answered: Answer | None, wanted: Any, *, off: float, side: int) -> Any:
    """JSON of what an answer comes to: itself, or how often it hits each thing and how often nothing.

    Two outlines, or boxes a pixel apart, mean the same thing.
    """
    if answered is None or not isinstance(answered, list):
        return answered
    if form == "polygon":
        return agreement(form, answered, wanted, off=off, side=side) >= ENOUGH
    hits: list[int] = []
    for row in answered:
        close = [_closeness(form, row, other, off) for other in wanted]
        hits.append(close.index(max(close)) if max(close) > HALF else -1)
    return sorted(hits)


def _closeness(form: Form, row: list[float], other: list[float], off: float) -> float:
    if form == "boxes":
        return box_f1(_boxes([row]), _boxes([other]))
    return point_f1(_points([row]), _points([other]), off)


def _boxes(rows: Sequence[Sequence[float]]) -> list[Box]:
    return [(left, top, right, bottom) for left, top, right, bottom in rows]


def _points(rows: Sequence[Sequence[float]]) -> list[Point]:
    return [(x, y) for x, y in rows]

"""What visual tasks are made of: full pictures, a question on them, the answer, and the looks that it takes to see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Box = tuple[int, int, int, int]
"""Left, upper, right and lower edge in pixels; the right and lower ones lie outside."""
Form = Literal["word", "text", "number", "boxes", "points", "polygon"]
"""What an answer is: one of several words; text; a whole number; JSON of boxes, points, or the corners of one polygon."""
LARGEST = 1024
"""Pixels of a side of a picture that a program may show."""
NAMES = "abcdef"
"""Of the pictures, in order: `a.png`, …"""
PLURALS = {"circle": "circles", "square": "squares", "triangle": "triangles", "cross": "crosses"}
QUARTERS = ("top left", "top right", "bottom left", "bottom right")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large the pictures of a level are."""

    side: int
    """Pixels of each side."""
    shrink: int
    """The first view is so many times smaller."""


SIZES: tuple[Size, ...] = (
    Size(side=48, shrink=6),
    Size(side=192, shrink=4),
    Size(side=320, shrink=4),
    Size(side=480, shrink=8),
    Size(side=640, shrink=8),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One image operation that shows what the first view does not."""

    code: str
    """Program of the sandbox."""
    seen: Any = None
    """What of the answer one sees then: a number to add, a text, some boxes or points. None: only all looks together tell."""
    chance: float = 0.0
    """How often somebody who did not look guesses right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Pictures and what is asked about them."""

    kind: str
    scenes: tuple[Mapping[str, Any], ...]
    """Of the pictures in full, as `media.scene` draws them."""
    asked: str
    form: Form
    answer: Any
    """JSON: a string, a number, or lists of numbers by form."""
    looks: tuple[Look, ...]
    options: tuple[str, ...] = ()
    """Every answer, where it is a word."""
    off: float = 1.0
    """Number: the error that earns nothing. Points: pixels of the Gaussian's width."""
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """More that the family's policies need to know."""


def file_of(number: int) -> str:
    """Name of the picture of that number."""
    return f"{NAMES[number]}.png"


def crop(number: int, box: Box, zoom: int = 2, before: str = "") -> str:
    """Program that shows a part of a picture, larger as far as it may be; `before` is done to the whole."""
    times = min(zoom, LARGEST // max(box[2] - box[0], box[3] - box[1]))
    larger = f".zoom({times})" if times > 1 else ""
    return f'show(load("{file_of(number)}"){before}.crop{box}{larger})'


def quarters(side: int) -> list[Box]:
    """The four quarters of a picture, as boxes."""
    half = side // 2
    return [(x, y, x + half, y + half) for y in (0, half) for x in (0, half)]


def within(box: Box, x: float, y: float) -> bool:
    """Whether a point lies in a box."""
    return box[0] <= x < box[2] and box[1] <= y < box[3]

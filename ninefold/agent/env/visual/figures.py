"""Figures to measure: curves, bars, angles."""

from __future__ import annotations

import math
from itertools import pairwise
from random import Random

from ninefold.agent.env.visual.question import SIZES, Look, Question, crop, file_of
from ninefold.agent.env.visual.reading import word
from ninefold.media.drawing import Mark, area, drawing, line, text
from ninefold.media.glyphs import HEIGHT, text_width
from ninefold.media.scene import Scene

STEPS = (2, 5, 10, 20, 25, 50)
"""Of the numbers along an axis."""
TICKS = 10
"""Marks of an axis above its origin."""
_MARGIN = 28
"""Pixels left and below of the axes."""


def curve(rng: Random, level: int) -> Question:
    """The height of a curve at a place, in the numbers of its axis; of several figures the sum."""
    figures = [_curve(rng, level) for _ in range({2: 1, 4: 2}[level])]
    places = [f"at {x} in {file_of(n)}" if len(figures) > 1 else f"at {x}" for n, (_, x, _, _) in enumerate(figures)]
    step = max(step for *_, step in figures)
    looks = [look for n, (_, x, _, _) in enumerate(figures) for look in _curve_looks(level, n, x)]
    total = "What is the height of the curve " if len(figures) == 1 else "What is the sum of the heights of the curves "
    return Question(
        kind="curve",
        scenes=tuple(scene for scene, *_ in figures),
        asked=f"{total}{' and '.join(places)}, by the numbers of the axes?",
        form="number",
        answer=sum(value for _, _, value, _ in figures),
        looks=tuple(looks),
        off=4.0 * step,
    )


def _curve(rng: Random, level: int) -> tuple[Scene, int, int, int]:
    """(figure, place asked for, height there, step of the axis)"""
    side, step, first = SIZES[level].side, rng.choice(STEPS), rng.randint(0, 4)
    heights = [rng.randint(0, TICKS)]
    for _ in range(TICKS):
        heights.append(min(TICKS, max(0, heights[-1] + rng.randint(-3, 3))))
    pitch, bottom = _pitch(side), side - _MARGIN
    points = [(_MARGIN + n * pitch, bottom - height * pitch) for n, height in enumerate(heights)]
    bends = [line(pair, "blue") for pair in pairwise(points)]
    labels = [text(str(n), "black", _MARGIN + n * pitch - 2, bottom + 5) for n in range(TICKS + 1)]
    x = rng.randint(1, TICKS)
    marks = [*_axes(side, step, first), *labels, *bends]
    return drawing(side, side, marks), x, (first + heights[x]) * step, step


def _curve_looks(level: int, number: int, x: int) -> list[Look]:
    side = SIZES[level].side
    left = _MARGIN + x * _pitch(side)
    return [
        Look(code=crop(number, (0, 0, _MARGIN + 6, side), 2), chance=0.2),
        Look(code=crop(number, (left - 12, 0, left + 12, side), 2), chance=0.3),
    ]


def chart(rng: Random, level: int) -> Question:
    """The height of the bar above a name, in the numbers of the axis."""
    side, step = SIZES[level].side, rng.choice(STEPS)
    bars = {1: 5, 3: 11}[level]
    names: list[str] = []
    while len(names) < bars:
        names += [name for name in (word(rng, 2),) if name not in names]
    heights = [rng.randint(1, TICKS) for _ in names]
    pitch, bottom = _pitch(side), side - _MARGIN
    wide = (side - _MARGIN - 4) // bars
    marks = _axes(side, step, 0)
    for n, (name, height) in enumerate(zip(names, heights)):
        x = _MARGIN + 4 + n * wide
        top = bottom - height * pitch
        marks.append(area([(x + 4, top), (x + wide - 6, top), (x + wide - 6, bottom - 1), (x + 4, bottom - 1)], "green"))
        marks.append(text(name, "black", x + wide // 2 - 4, bottom + 6))
    chosen = rng.randrange(bars)
    left = _MARGIN + 4 + chosen * wide
    looks = (
        Look(code=crop(0, (0, bottom, side, side), 2), chance=1 / bars),
        Look(code=crop(0, (0, 0, _MARGIN + 6, side), 2), chance=0.2),
        Look(code=crop(0, (max(0, left - 4), 0, left + wide, side), 2), chance=0.3),
    )
    return Question(
        kind="chart",
        scenes=(drawing(side, side, marks),),
        asked=f"How high is the bar {names[chosen]}, by the numbers of the axis?",
        form="number",
        answer=heights[chosen] * step,
        looks=looks,
        off=4.0 * step,
    )


def angle(rng: Random, level: int) -> Question:
    """A small angle between two lines, of several of which one is named."""
    side, count = SIZES[level].side, 3
    marks: list[Mark] = []
    angles = [5 * rng.randint(3, 33) for _ in range(count)]
    spots: list[tuple[int, int]] = []
    while len(spots) < count:
        spot = rng.randint(45, side - 46), rng.randint(45, side - 46)
        if all(math.dist(spot, other) > 95 for other in spots):
            spots.append(spot)
    for (x, y), degrees, name in zip(spots, angles, "ABC"):
        start = rng.uniform(0, 360)
        for turn in (start, start + degrees):
            end = x + round(38 * math.cos(math.radians(turn))), y - round(38 * math.sin(math.radians(turn)))
            marks.append(line([(x, y), end], "black"))
        behind = math.radians(start + degrees / 2 + 180)
        marks.append(text(name, "red", x + round(8 * math.cos(behind)) - 1, y - round(8 * math.sin(behind)) - 2))
    chosen = rng.randrange(count)
    x, y = spots[chosen]
    return Question(
        kind="angle",
        scenes=(drawing(side, side, marks),),
        asked=f"How many degrees has the angle at {'ABC'[chosen]}, to the nearest 5?",
        form="number",
        answer=angles[chosen],
        looks=(Look(code=crop(0, (x - 44, y - 44, x + 44, y + 44), 3), chance=0.2),),
        off=20.0,
    )


def _axes(side: int, step: int, first: int) -> list[Mark]:
    """Two axes; marks along the upright one, and numbers at every second of them."""
    bottom, pitch = side - _MARGIN, _pitch(side)
    marks = [line([(_MARGIN, 4), (_MARGIN, bottom), (side - 4, bottom)], "black")]
    for n in range(1, TICKS + 1):
        y = bottom - n * pitch
        marks.append(line([(_MARGIN - 3, y), (_MARGIN, y)], "black"))
        marks.append(line([(_MARGIN, y), (side - 4, y)], "grey"))
        number = str((first + n) * step)
        if n % 2 == 0:
            marks.append(text(number, "black", _MARGIN - 5 - text_width(number), y - HEIGHT // 2))
    return marks


def _pitch(side: int) -> int:
    return (side - _MARGIN - 8) // TICKS

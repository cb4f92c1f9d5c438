"""Things to be counted, pointed at, boxed and outlined."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from ninefold.agent.env.visual.question import PLURALS, SIZES, Box, Look, Question, crop, file_of, quarters, within
from ninefold.media.drawing import Mark, area, drawing, shape
from ninefold.media.scene import Scene
from ninefold.media.shapes import SHAPES

INKS = ("red", "green", "blue", "purple")
Kind = tuple[str, str]
"""(colour, shape)"""


def count(rng: Random, level: int) -> Question:
    """How many things of a shape there are, among others that overlap with them."""
    pictures = {1: 1, 4: 3}[level]
    target = rng.choice(SHAPES)
    drawn = [_crowd(rng, level, target, n) for n in range(pictures)]
    looks = tuple(look for _, some in drawn for look in some)
    where = "" if pictures == 1 else " in the pictures together"
    answer = sum(look.seen for look in looks)
    return Question(
        kind="count",
        scenes=tuple(scene for scene, _ in drawn),
        asked=f"How many {PLURALS[target]} are there{where}, of any colour?",
        form="number",
        answer=answer,
        looks=looks,
        off=float(answer),
    )


def _crowd(rng: Random, level: int, target: str, number: int) -> tuple[Scene, list[Look]]:
    """Things of which each leaves something to be seen of those below it; a look at each half."""
    side, size = SIZES[level].side, 10 + 2 * (level > 1)
    wanted = rng.randint(10, 18)
    kinds = [target] * wanted
    kinds += [rng.choice([kind for kind in SHAPES if kind != target]) for _ in range(rng.randint(10, 30))]
    rng.shuffle(kinds)
    places: list[tuple[int, int]] = []
    while len(places) < len(kinds):
        place = rng.randint(2, side - size - 2), rng.randint(2, side - size - 2)
        if all(math.dist(place, other) > 0.7 * size for other in places):
            places.append(place)
    marks = [shape(kind, rng.choice(INKS), x, y, size) for kind, (x, y) in zip(kinds, places)]
    seen = [place for kind, place in zip(kinds, places) if kind == target]
    halves: list[Box] = [(0, 0, side, side // 2), (0, side // 2, side, side)]
    looks = [Look(code=crop(number, box), seen=sum(within(box, *place) for place in seen)) for box in halves]
    return drawing(side, side, marks), looks


def points(rng: Random, level: int) -> Question:
    """The middle of every thing of a colour and shape."""
    side, size = SIZES[level].side, 9
    (colour, kind), marks, found = _scattered(rng, side, rng.randint(3, 5), 14, lambda: size)
    middles = [[x + size // 2, y + size // 2] for x, y, _ in found]
    halves: list[Box] = [(0, 0, side, side // 2), (0, side // 2, side, side)]
    looks = [Look(code=crop(0, box, 3), seen=[point for point in middles if within(box, *point)]) for box in halves]
    return Question(
        kind="points",
        scenes=(drawing(side, side, marks),),
        asked=f"Point at the middle of every {colour} {kind}.",
        form="points",
        answer=[point for look in looks for point in look.seen],
        looks=tuple(looks),
        off=size / 2,
    )


def boxes(rng: Random, level: int) -> Question:
    """A box around every thing of a colour and shape."""
    side = SIZES[level].side
    (colour, kind), marks, found = _scattered(rng, side, rng.randint(3, 6), 12 * level, lambda: rng.randint(12, 26))
    edges = [[x, y, x + size, y + size] for x, y, size in found]
    looks = [
        Look(code=crop(0, box, 3), seen=[e for e in edges if within(box, (e[0] + e[2]) / 2, (e[1] + e[3]) / 2)])
        for box in quarters(side)
    ]
    return Question(
        kind="boxes",
        scenes=(drawing(side, side, marks),),
        asked=f"Draw a box around every {colour} {kind}.",
        form="boxes",
        answer=[box for look in looks for box in look.seen],
        looks=tuple(looks),
    )


def _scattered(
    rng: Random, side: int, wanted: int, others: int, size: Callable[[], int]
) -> tuple[Kind, list[Mark], list[tuple[int, int, int]]]:
    """A kind of thing; things that do not touch, among them so many of that kind; (x, y, size) of those."""
    target = rng.choice(INKS), rng.choice(SHAPES)
    kinds = [target] * wanted
    while len(kinds) < wanted + others:
        kind = rng.choice(INKS), rng.choice(SHAPES)
        kinds += [kind] if kind != target else []
    placed: list[tuple[int, int, int]] = []
    while len(placed) < len(kinds):
        new = size()
        x, y = rng.randint(1, side - new - 1), rng.randint(1, side - new - 1)
        if all(x + new < a or a + b < x or y + new < c or c + b < y for a, c, b in placed):
            placed.append((x, y, new))
    marks = [shape(kind, colour, x, y, new) for (colour, kind), (x, y, new) in zip(kinds, placed)]
    return target, marks, placed[:wanted]


def mask(rng: Random, level: int) -> Question:
    """The outline of one area with corners, among areas of other colours."""
    side, pitch = SIZES[level].side, 80
    cells = [(x, y) for y in range(side // pitch) for x in range(side // pitch)]
    colours = ("red", "green", "blue", "purple", "yellow")
    marks: list[Mark] = []
    outlines: list[list[tuple[int, int]]] = []
    for (x, y), colour in zip(rng.sample(cells, len(colours)), colours):
        outlines.append(_outline(rng, x * pitch + pitch // 2, y * pitch + pitch // 2))
        marks.append(area(outlines[-1], colour))
    chosen = rng.randrange(len(colours))
    corners = [list(corner) for corner in outlines[chosen]]
    xs, ys = zip(*corners)
    box = (min(xs) - 6, min(ys) - 6, max(xs) + 7, max(ys) + 7)
    return Question(
        kind="mask",
        scenes=(drawing(side, side, marks),),
        asked=f"Outline the {colours[chosen]} area of {file_of(0)}.",
        form="polygon",
        answer=corners,
        looks=(Look(code=crop(0, box, 4), seen=corners),),
    )


def _outline(rng: Random, x: int, y: int) -> list[tuple[int, int]]:
    """Corners around a point, near and far by turns."""
    count = rng.randint(6, 9)
    turns = sorted(rng.uniform(0, 2 * math.pi) for _ in range(count))
    radii = [rng.uniform(12, 36) for _ in turns]
    return [(x + round(r * math.cos(turn)), y + round(r * math.sin(turn))) for turn, r in zip(turns, radii)]

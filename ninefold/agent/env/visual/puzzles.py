"""Puzzles: mazes, missing pieces, pictures that differ."""

from __future__ import annotations

import math
from random import Random

from ninefold.agent.env.visual.question import SIZES, Box, Look, Question, crop, quarters, within
from ninefold.media.drawing import Mark, drawing, line, shape, text
from ninefold.media.scene import Scene
from ninefold.media.shapes import SHAPES

Cell = tuple[int, int]
LETTERS = "ABCD"
COLOURS = ("red", "green", "blue", "yellow", "purple", "black")
_MARGIN = 16
"""Pixels around a maze."""
_STEPS = ((1, 0), (-1, 0), (0, 1), (0, -1))


def maze(rng: Random, level: int) -> Question:
    """Which of four exits one comes to from the red square; each has a part of the maze to itself."""
    side = SIZES[level].side
    pitch = 20
    cells = (side - 2 * _MARGIN) // pitch
    exits = _exits(rng, cells)
    answer = rng.choice(LETTERS)
    middle = (cells - 1) / 2
    while True:
        owner, joined = _grown(rng, cells, exits)
        start = min((cell for cell in owner if owner[cell] == answer), key=lambda cell: math.dist(cell, (middle, middle)))
        if math.dist(start, (middle, middle)) < cells / 4:
            break
    marks = _walls(cells, pitch, joined, exits)
    x, y = (_MARGIN + place * pitch + 4 for place in start)
    marks.append(shape("square", "red", x, y, pitch - 7))
    looks = tuple(Look(code=crop(0, box), chance=0.7) for box in quarters(side))
    return Question(
        kind="maze",
        scenes=(drawing(side, side, marks),),
        asked="To which exit does the way from the red square lead?",
        form="word",
        answer=answer,
        options=tuple(LETTERS),
        looks=looks,
    )


def _exits(rng: Random, cells: int) -> dict[str, Cell]:
    """A cell on each side, by the letter of its exit: above, right, below, left."""
    places = [rng.randint(2, cells - 3) for _ in LETTERS]
    end = cells - 1
    return dict(zip(LETTERS, ((places[0], 0), (end, places[1]), (places[2], end), (0, places[3]))))


def _grown(rng: Random, cells: int, exits: dict[str, Cell]) -> tuple[dict[Cell, str], set[tuple[Cell, Cell]]]:
    """Each cell's exit, and the pairs of neighbours between which one can go: a tree for each exit."""
    owner = {cell: letter for letter, cell in exits.items()}
    joined: set[tuple[Cell, Cell]] = set()
    edge = list(exits.values())
    while edge:
        # Mostly on from the newest cell: long ways; now and then from any: many turnings.
        place = rng.randrange(len(edge)) if rng.random() < 0.4 else len(edge) - 1
        x, y = edge[place]
        free = [(x + dx, y + dy) for dx, dy in _STEPS]
        free = [cell for cell in free if min(cell) >= 0 and max(cell) < cells and cell not in owner]
        if not free:
            edge.pop(place)
            continue
        cell = rng.choice(free)
        owner[cell] = owner[x, y]
        joined |= {((x, y), cell), (cell, (x, y))}
        edge.append(cell)
    return owner, joined


def _walls(cells: int, pitch: int, joined: set[tuple[Cell, Cell]], exits: dict[str, Cell]) -> list[Mark]:
    """Walls between cells that are not joined and around all, open at the exits, and the exits' letters."""
    outside = {(exits["A"], (exits["A"][0], -1)), (exits["B"], (cells, exits["B"][1]))}
    outside |= {(exits["C"], (exits["C"][0], cells)), (exits["D"], (-1, exits["D"][1]))}
    open_pairs = joined | outside | {(b, a) for a, b in outside}
    marks: list[Mark] = []
    for at in range(cells + 1):
        flat = [((along, at - 1), (along, at)) not in open_pairs for along in range(cells)]
        upright = [((at - 1, along), (at, along)) not in open_pairs for along in range(cells)]
        fixed = _MARGIN + at * pitch
        for start, end in _runs(flat):
            marks.append(line([(_MARGIN + start * pitch, fixed), (_MARGIN + end * pitch, fixed)], "black"))
        for start, end in _runs(upright):
            marks.append(line([(fixed, _MARGIN + start * pitch), (fixed, _MARGIN + end * pitch)], "black"))
    for letter, (x, y) in exits.items():
        left = {"B": cells * pitch + 6, "D": -10}.get(letter, x * pitch + pitch // 2 - 3)
        top = {"A": -13, "C": cells * pitch + 4}.get(letter, y * pitch + 2)
        marks.append(text(letter, "blue", _MARGIN + left, _MARGIN + top, 2))
    return marks


def _runs(flags: list[bool]) -> list[tuple[int, int]]:
    """(start, end) of each run of true flags."""
    starts = [n for n, flag in enumerate(flags) if flag and (n == 0 or not flags[n - 1])]
    ends = [n + 1 for n, flag in enumerate(flags) if flag and (n + 1 == len(flags) or not flags[n + 1])]
    return list(zip(starts, ends))


def jigsaw(rng: Random, level: int) -> Question:
    """Which piece belongs where a picture has a hole; the others are cut a few pixels beside it."""
    side, count = SIZES[level].side, {3: 1, 4: 2}[level]
    wide = side // 8
    whole = drawing(side, side, _scribble(rng, side))
    across = [rng.randint(wide, side // 2 - 2 * wide) + n * side // 2 for n in range(count)]
    holes = [(x, rng.randint(wide, side - 2 * wide)) for x in across]
    sheets: list[Scene] = []
    right: list[str] = []
    for x, y in holes:
        right.append(rng.choice(LETTERS))
        sheets.append(_pieces(rng, whole, x, y, wide, right[-1]))
    grey = drawing(wide, wide, []) | {"ground": "grey"}
    items = [{"of": whole, "x": 0, "y": 0}, *({"of": grey, "x": x, "y": y} for x, y in holes)]
    looks: list[Look] = []
    for n, (x, y) in enumerate(holes):
        looks.append(Look(code=crop(0, (x - 24, y - 24, x + wide + 24, y + wide + 24)), chance=0.5))
        looks.append(Look(code=f'show(load("{"bc"[n]}.png").zoom(2))', chance=0.5))
    options = tuple(LETTERS) if count == 1 else tuple(a + b for a in LETTERS for b in LETTERS)
    one = "Which piece of b.png belongs into the grey hole?"
    two = "Two letters: which piece of b.png belongs into the left hole, and which of c.png into the right one?"
    return Question(
        kind="jigsaw",
        scenes=({"kind": "sheet", "width": side, "height": side, "items": items}, *sheets),
        asked=one if count == 1 else two,
        form="word",
        answer="".join(right),
        options=options,
        looks=tuple(looks),
    )


def _scribble(rng: Random, side: int) -> list[Mark]:
    """So many lines and shapes that no two parts look alike."""

    def point() -> tuple[int, int]:
        return rng.randrange(side), rng.randrange(side)

    lines = [line([point(), point()], rng.choice(COLOURS), 3) for _ in range(40)]
    return lines + [shape(rng.choice(SHAPES), rng.choice(COLOURS), *point(), rng.randint(10, 22)) for _ in range(side // 4)]


def _pieces(rng: Random, whole: Scene, x: int, y: int, wide: int, right: str) -> Scene:
    """Four pieces under their letters."""
    items: list[dict[str, object]] = []
    shifts = rng.sample([(dx, dy) for dx in (-9, -5, 0, 5, 9) for dy in (-9, -5, 0, 5, 9) if dx or dy], len(LETTERS))
    for n, letter in enumerate(LETTERS):
        dx, dy = (0, 0) if letter == right else shifts[n]
        box = [x + dx, y + dy, x + dx + wide, y + dy + wide]
        label = drawing(12, 12, [text(letter, "black", 2, 1, 2)])
        items.append({"of": label, "x": 8 + n * (wide + 16), "y": 2})
        piece = {"kind": "view", "of": whole, "box": box, "width": wide, "height": wide}
        items.append({"of": piece, "x": 8 + n * (wide + 16), "y": 16})
    return {"kind": "sheet", "width": 4 * (wide + 16), "height": wide + 24, "items": items}


def difference(rng: Random, level: int) -> Question:
    """Where two pictures of many things differ: some have another colour or shape in the second one."""
    side, size, changed = SIZES[level].side, 12, rng.randint(3, 5)
    pitch = 24
    cells = [(x, y) for y in range(side // pitch) for x in range(side // pitch)]
    first: list[Mark] = []
    for x, y in rng.sample(cells, len(cells) // 2):
        place = x * pitch + rng.randint(2, pitch - size - 2), y * pitch + rng.randint(2, pitch - size - 2)
        first.append(shape(rng.choice(SHAPES), rng.choice(COLOURS), *place, size))
    second = [dict(mark) for mark in first]
    spots: list[tuple[int, int]] = []
    for n in sorted(rng.sample(range(len(first)), changed)):
        part, values = rng.choice((("shape", SHAPES), ("colour", COLOURS)))
        second[n][part] = rng.choice([value for value in values if value != first[n][part]])
        spots.append((first[n]["x"] + size // 2, first[n]["y"] + size // 2))
    halves: list[Box] = [(0, 0, side, side // 2), (0, side // 2, side, side)]
    looks = [
        Look(code=crop(0, box, before='.difference(load("b.png"))'), seen=[list(spot) for spot in spots if within(box, *spot)])
        for box in halves
    ]
    return Question(
        kind="difference",
        scenes=(drawing(side, side, first), drawing(side, side, second)),
        asked="Point at every thing of a.png that looks different in b.png.",
        form="points",
        answer=[spot for look in looks for spot in look.seen],
        looks=tuple(looks),
        off=size / 2,
    )

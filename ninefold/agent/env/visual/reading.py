"""What has to be read: a quarter's content, small print, and pages that lie the wrong way."""

from __future__ import annotations

from random import Random

from ninefold.agent.env.visual.question import PLURALS, QUARTERS, SIZES, Look, Question, crop
from ninefold.media.drawing import Mark, drawing, shape, text
from ninefold.media.glyphs import HEIGHT, text_width
from ninefold.media.scene import Scene
from ninefold.media.shapes import SHAPES

INKS = ("red", "green", "blue", "black")
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""Characters of words that mean nothing, those left out that look like another."""
TILE, CELL = 24, 12
"""Pixels of a quarter of the smallest pictures, and of a quarter of that."""


def tile(rng: Random, _: int) -> Question:
    """A digit, a shape, or how many shapes there are of a kind, in a quarter of a picture whose first view is too small."""
    kind = rng.choice(("digit", "shape", "count"))
    tiles = [_TILES[kind](rng, n % 2 * TILE, n // 2 * TILE) for n in range(4)]
    place = rng.randrange(4)
    marks = [mark for some, _ in tiles for mark in some]
    target = rng.choice(SHAPES)
    answer = tiles[place][1] if kind != "count" else str(sum(mark["shape"] == target for mark in tiles[place][0]))
    options = {"digit": tuple("0123456789"), "shape": SHAPES, "count": tuple("01234")}[kind]
    asked = f"How many {PLURALS[target]} are" if kind == "count" else f"Which {kind} is"
    return Question(
        kind=f"tile {kind}",
        scenes=(drawing(2 * TILE, 2 * TILE, marks),),
        asked=f"{asked} {AT}{QUARTERS[place]}?",
        form="word",
        answer=answer,
        options=options,
        looks=(Look(code=f'look("{QUARTERS[place]}")', chance=1 / len(options)),),
    )


AT = "at the "


def _digit(rng: Random, x: int, y: int) -> tuple[list[Mark], str]:
    digit, zoom = rng.choice("0123456789"), rng.choice((3, 4))
    left, top = rng.randint(1, TILE - 3 * zoom - 1), rng.randint(1, TILE - 5 * zoom - 1)
    return [text(digit, rng.choice(INKS[:3]), x + left, y + top, zoom)], digit


def _one(rng: Random, x: int, y: int) -> tuple[list[Mark], str]:
    kind, cell = rng.choice(SHAPES), rng.randrange(4)
    return [_thing(rng, kind, x + cell % 2 * CELL, y + cell // 2 * CELL)], kind


def _some(rng: Random, x: int, y: int) -> tuple[list[Mark], str]:
    """Two kinds of shape fill the cells, so that each number of a kind is about as likely."""
    number = rng.randint(0, 4)
    one, other = rng.sample(SHAPES, 2)
    kinds = [one] * number + [other] * (4 - number)
    rng.shuffle(kinds)
    return [_thing(rng, kind, x + n % 2 * CELL, y + n // 2 * CELL) for n, kind in enumerate(kinds)], ""


def _thing(rng: Random, kind: str, x: int, y: int) -> Mark:
    return shape(kind, rng.choice(INKS[:3]), x + rng.randint(1, 2), y + rng.randint(1, 2), rng.randint(8, 9))


_TILES = {"digit": _digit, "shape": _one, "count": _some}


def page(rng: Random, level: int) -> Question:
    """Some lines of small print among others of another colour."""
    count = {1: 1, 3: 1, 4: 2}[level]
    pages = [_page(rng, level, n) for n in range(count)]
    looks = tuple(look for _, some in pages for look in some)
    many = "red line" if len(looks) == 1 else f"{len(looks)} red lines"
    return Question(
        kind="page",
        scenes=tuple(scene for scene, _ in pages),
        asked=f"What stands in the {many}?" + ("" if len(looks) == 1 else " One after the other, from above."),
        form="text",
        answer=" ".join(look.seen for look in looks),
        looks=looks,
    )


def _page(rng: Random, level: int, number: int) -> tuple[Scene, list[Look]]:
    side, wanted = SIZES[level].side, {1: 1, 3: 4, 4: 3}[level]
    pitch = 12 if level < 3 else 20
    rows = side // pitch - 1
    red = sorted(rng.sample(range(rows), wanted))
    marks: list[Mark] = []
    looks: list[Look] = []
    for row in range(rows):
        words = " ".join(word(rng, rng.randint(3, 6)) for _ in range(2 if level < 3 else 3))
        x, y = rng.randint(4, side - text_width(words) - 5), 6 + row * pitch
        colour = "red" if row in red else rng.choice(("blue", "black", "green"))
        marks.append(text(words, colour, x, y))
        if row in red:
            looks.append(Look(code=crop(number, (x - 4, y - 4, x + text_width(words) + 4, y + HEIGHT + 4), 4), seen=words))
    return drawing(side, side, marks), looks


def turned(rng: Random, level: int) -> Question:
    """A line of small print on each page, and the pages turned, some of them mirrored as well."""
    count = {2: 1, 4: 3}[level]
    scenes: list[Scene] = []
    looks: list[Look] = []
    for number in range(count):
        side = SIZES[level].side
        words = " ".join(word(rng, rng.randint(4, 6)) for _ in range(2))
        x, y = rng.randint(20, side - text_width(words) - 20), rng.randint(20, side - 30)
        quarters, mirrored = rng.choice([(q, m) for q in range(4) for m in (False, True) if q or m])
        noise = [text(word(rng, 5), "grey", rng.randint(0, side - 30), rng.randint(0, side - 8)) for _ in range(6 * level)]
        clear = [mark for mark in noise if abs(mark["y"] - y) > 9]
        drawn = drawing(side, side, [*clear, text(words, "red", x, y)])
        scenes.append({"kind": "turned", "of": drawn, "quarters": quarters, "mirrored": mirrored})
        undo = (f".turn({4 - quarters})" if quarters else "") + (".mirror()" if mirrored else "")
        box = (x - 4, y - 4, x + text_width(words) + 4, y + HEIGHT + 4)
        looks.append(Look(code=crop(number, box, 4, undo), seen=words))
    pages = "The page was" if count == 1 else "The pages were"
    return Question(
        kind="turned",
        scenes=tuple(scenes),
        asked=f"{pages} turned, mirrored, or both. What stands there in red?",
        form="text",
        answer=" ".join(look.seen for look in looks),
        looks=tuple(looks),
    )


def word(rng: Random, length: int) -> str:
    """Letters and digits that mean nothing: nobody reads them who does not see them."""
    return "".join(rng.choice(LETTERS) for _ in range(length))

"""Generated pairs of a picture and its source or what it shows, as worksheets that pre-training sees from its first step.

Colours and shapes by place, counts, charts, digits, words, boxes in pixels and as shares of the sides, SVG icons and small
pages with their source (spec 02, vision). Every picture belongs to the split `corpus`, so that none is ever a task's. [ours]
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

from ninefold.agent.env.names import GOODS, NAMES
from ninefold.agent.env.picture.content import (
    DIGITS,
    HIGHEST,
    INKS,
    NONE,
    PITCH,
    Cell,
    any_cell,
    ask_bars,
    ask_digit,
    grid_scene,
    places,
)
from ninefold.core.config import Config
from ninefold.core.picture import Picture
from ninefold.core.seeds import rng_of, split_of
from ninefold.media.glyphs import text_width
from ninefold.media.scene import draw
from ninefold.media.shapes import SHAPES
from ninefold.media.view import normalised

SIDE = 2 * PITCH
"""Pixels of a side."""


class Pairs(Config):
    """Relative frequency of each kind of pair."""

    grid: float = 0.56
    bars: float = 0.20
    digit: float = 0.10
    words: float = 0.03
    box: float = 0.05
    line: float = 0.02
    icon: float = 0.02
    page: float = 0.02


FACTS = {"at": 3, "count": 3, "list": 2, "tally": 2, "shape": 1, "caption": 1}
"""What is said about a grid → how often."""


class Pair(NamedTuple):
    """A picture, and the text that goes with it."""

    scene: Mapping[str, Any]
    text: str

    @property
    def picture(self) -> Picture:
        return draw(self.scene)


def pair(pairs: Pairs, *names: object) -> Pair:
    """One pair, fixed by `names`."""
    rng = rng_of("pairs", *names)
    kinds = list(pairs.model_dump().items())
    kind = rng.choices([k for k, _ in kinds], [w for _, w in kinds])[0]
    while True:
        made = KINDS[kind](rng)
        # The key that the family draws its tasks by.
        if split_of(json.dumps(made.scene, sort_keys=True)) == "corpus":
            return made


def phrases() -> list[str]:
    """Fixed phrases of the texts."""
    words = ["at ", "shape ", "count ", "list ", "tally ", "bars ", "tallest ", "digit ", "text ", "box ", "line ", "caption "]
    return [*INKS, *SHAPES, NONE, *places(2), *words, f"image {SIDE}x{SIDE}"]


def _grid(rng: Random) -> Pair:
    """Four cells, of which any number has one colour, and a few things said about them."""
    main, count = rng.choice(INKS), rng.randint(0, 4)
    others = tuple(ink for ink in INKS if ink != main)
    cells: list[Cell] = [(main, rng.choice(SHAPES)) for _ in range(count)]
    cells += [any_cell(rng, others) for _ in range(4 - count)]
    rng.shuffle(cells)
    colours = [NONE if cell is None else cell[0] for cell in cells]
    said: list[str] = []
    for fact in dict.fromkeys(rng.choices(list(FACTS), list(FACTS.values()), k=4)):
        place, name = rng.choice(list(enumerate(places(2))))
        colour = rng.choice((main, rng.choice(INKS)))
        cell = cells[place]
        if fact == "at":
            said.append(f"at {name};{colours[place]}.")
        elif fact == "shape":
            said.append(f"shape {name};{NONE if cell is None else cell[1]}.")
        elif fact == "count":
            said.append(f"count {colour};{colours.count(colour)}.")
        elif fact == "list":
            said.append(f"list {','.join(colours)}.")
        elif fact == "tally":
            steps = (f"{seen}={colours[: n + 1].count(colour)}" for n, seen in enumerate(colours))
            said.append(f"tally {colour};{','.join(steps)}.")
        else:
            things = (f"{n} {NONE if c is None else ' '.join(c)}" for n, c in zip(places(2), cells))
            said.append(f"caption {','.join(things)}.")
    return Pair(grid_scene(cells, 2, rng), "".join(said) + "\n")


def _bars(rng: Random) -> Pair:
    question = ask_bars(rng, 2)
    read, tallest = f"bars {','.join(question.counted)}.", f"tallest {question.answer}."
    both = [f"list {','.join(question.seen)}.{tallest}", read + tallest, tallest + read]
    return Pair(question.scene, rng.choice(both) + "\n")


def _digit(rng: Random) -> Pair:
    question = ask_digit(rng, 2)
    colour, digit = question.counted
    return Pair(question.scene, rng.choice((f"digit {digit}.", f"digit {digit}.{colour},{digit}.")) + "\n")


def _words(rng: Random) -> Pair:
    word = rng.choice([name for name in (*NAMES, *GOODS) if text_width(name) <= SIDE - 4])
    line = {"text": word, "colour": rng.choice(INKS), "x": rng.randint(1, SIDE - 2 - text_width(word)), "y": rng.randint(1, 17)}
    scene = {"kind": "text", "width": SIDE, "height": SIDE, "lines": [line]}
    return Pair(scene, f"text {word}.\n")


def _box(rng: Random) -> Pair:
    """A single thing, and where it is: left, upper, right and lower edge in pixels, and as shares of the sides."""
    size = rng.randint(6, 14)
    x, y = rng.randint(0, SIDE - size), rng.randint(0, SIDE - size)
    thing = {"shape": rng.choice(SHAPES), "colour": rng.choice(INKS), "x": x, "y": y, "size": size}
    made = Pair({"kind": "shapes", "width": SIDE, "height": SIDE, "items": [thing]}, "")
    box = (x, y, x + size, y + size)
    shares = " ".join(f"{edge:.2f}" for edge in normalised(box, made.picture))
    return made._replace(text=f"box {' '.join(map(str, box))};{shares}.\n")


def _line(rng: Random) -> Pair:
    values = [rng.randint(0, HIGHEST) for _ in range(4)]
    scene = {"kind": "line", "width": SIDE, "height": SIDE, "values": values, "most": HIGHEST, "colour": rng.choice(INKS)}
    return Pair(scene, f"line {','.join(map(str, values))}.\n")


def _icon(rng: Random) -> Pair:
    """One or two elements and the SVG source that draws them."""
    parts: list[str] = []
    for _ in range(rng.randint(1, 2)):
        x, y, size, colour = rng.randint(2, 8), rng.randint(2, 8), rng.randint(6, 12), rng.choice(INKS)
        parts.append(
            rng.choice(
                (
                    f'<circle cx="{x + 5}" cy="{y + 5}" r="{size // 2}" fill="{colour}"/>',
                    f'<rect x="{x}" y="{y}" width="{size}" height="{size}" fill="{colour}"/>',
                    f'<path d="M{x} {y} h{size} v{size} Z" fill="{colour}"/>',
                )
            )
        )
    source = f'<svg viewBox="0 0 {SIDE} {SIDE}">{"".join(parts)}</svg>'
    return Pair({"kind": "svg", "width": SIDE, "height": SIDE, "source": source}, source + "\n")


def _page(rng: Random) -> Pair:
    """A small page and its source."""
    block = f'<div style="background: {rng.choice(INKS)}; height: {rng.randint(4, 9)}px"></div>'
    word = f"<p>{rng.choice((*NAMES, *DIGITS))}</p>"
    source = rng.choice((word + block, block + word))
    return Pair({"kind": "page", "width": SIDE, "height": SIDE, "source": source}, source + "\n")


KINDS: Mapping[str, Callable[[Random], Pair]] = {
    "grid": _grid,
    "bars": _bars,
    "digit": _digit,
    "words": _words,
    "box": _box,
    "line": _line,
    "icon": _icon,
    "page": _page,
}

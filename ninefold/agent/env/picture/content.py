"""What pictures of tasks and worksheets show, and what can be asked about them: pictures are drawn after the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from ninefold.media.shapes import SHAPES

INKS: tuple[str, ...] = ("red", "green", "blue", "yellow")
NONE = "none"
DIGITS = tuple("0123456789")
PITCH = 12
"""Pixels of a cell's side."""
HIGHEST = 8
"""Largest value of a bar."""
_ROWS = {2: ("top", "bottom"), 3: ("top", "middle", "bottom")}
_COLUMNS = {2: ("left", "right"), 3: ("left", "centre", "right")}

Cell = tuple[str, str] | None
"""(colour, shape) of what stands in a cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A picture and what is asked about it."""

    kind: str
    scene: Mapping[str, Any]
    """Description of the picture, as `media.scene` draws it."""
    asked: str
    """The colour or the place that is asked for; empty where there is but one thing to ask."""
    answer: str
    seen: tuple[str, ...]
    """What one reads off the picture in order to answer, in reading order."""
    counted: tuple[str, ...]
    """The same with what follows from it at each step."""
    options: tuple[str, ...]
    """Every answer of that kind; all are equally likely."""


def places(side: int) -> tuple[str, ...]:
    """Names of the cells of a grid of `side` × `side`, row by row."""
    return tuple(f"{row} {column}" for row in _ROWS[side] for column in _COLUMNS[side])


def grid_scene(cells: list[Cell], side: int, rng: Random) -> dict[str, Any]:
    """A grid with a thing, or nothing, in each cell, its size and place within it a pixel more or less."""
    items: list[dict[str, Any]] = []
    for n, cell in enumerate(cells):
        if cell is not None:
            size, x, y = rng.randint(PITCH - 4, PITCH - 3), rng.randint(1, 2), rng.randint(1, 2)
            colour, shape = cell
            item = {"shape": shape, "colour": colour, "x": x + n % side * PITCH, "y": y + n // side * PITCH, "size": size}
            items.append(item)
    return {"kind": "shapes", "width": side * PITCH, "height": side * PITCH, "items": items}


def any_cell(rng: Random, colours: tuple[str, ...] = INKS) -> Cell:
    """A thing of one of the colours; now and then nothing."""
    return None if rng.random() < 0.2 else (rng.choice(colours), rng.choice(SHAPES))


def ask_colour(rng: Random, side: int) -> Question:
    """Which colour stands at a place."""
    return _ask_place(rng, side, "colour", 0, INKS)


def ask_shape(rng: Random, side: int) -> Question:
    """Which shape stands at a place."""
    return _ask_place(rng, side, "shape", 1, SHAPES)


def _ask_place(rng: Random, side: int, kind: str, part: int, values: tuple[str, ...]) -> Question:
    cells, place = [any_cell(rng) for _ in range(side * side)], rng.randrange(side * side)
    answer = rng.choice((*values, NONE))
    other = rng.choice(SHAPES if part == 0 else INKS)
    cells[place] = None if answer == NONE else (answer, other) if part == 0 else (other, answer)
    seen = tuple(NONE if cell is None else cell[part] for cell in cells[: place + 1])
    return Question(
        kind=kind,
        scene=grid_scene(cells, side, rng),
        asked=places(side)[place],
        answer=answer,
        seen=(seen[-1],),
        counted=seen,
        options=(*values, NONE),
    )


def ask_count(rng: Random, side: int) -> Question:
    """How many things have a colour."""
    colour = rng.choice(INKS)
    answer = rng.randint(0, min(side * side, 9))
    others = tuple(ink for ink in INKS if ink != colour)
    cells: list[Cell] = [(colour, rng.choice(SHAPES)) for _ in range(answer)]
    cells += [any_cell(rng, others) for _ in range(side * side - answer)]
    rng.shuffle(cells)
    seen = [NONE if cell is None else cell[0] for cell in cells]
    running = [f"{name}={seen[: n + 1].count(colour)}" for n, name in enumerate(seen)]
    return Question(
        kind="count",
        scene=grid_scene(cells, side, rng),
        asked=colour,
        answer=str(answer),
        seen=tuple(seen),
        counted=tuple(running),
        options=DIGITS[: min(side * side, 9) + 1],
    )


def ask_bars(rng: Random, side: int) -> Question:
    """Which bar is the tallest."""
    colours = rng.sample(INKS, len(INKS))
    values = rng.sample(range(1, HIGHEST + 1), len(INKS))
    scene = {"kind": "bars", "width": side * PITCH, "height": side * PITCH, "bars": list(map(list, zip(colours, values)))}
    answer = colours[values.index(max(values))]
    return Question(
        kind="bars",
        scene={**scene, "most": HIGHEST},
        asked="",
        answer=answer,
        seen=tuple(colours),
        counted=tuple(f"{colour}={value}" for colour, value in zip(colours, values)),
        options=INKS,
    )


def ask_digit(rng: Random, side: int) -> Question:
    """Which digit is shown."""
    digit, zoom = rng.choice(DIGITS), rng.choice((3, 4))
    width = side * PITCH
    x, y = rng.randint(1, width - 3 * zoom - 1), rng.randint(1, width - 5 * zoom - 1)
    line = {"text": digit, "colour": rng.choice(INKS), "x": x, "y": y, "zoom": zoom}
    return Question(
        kind="digit",
        scene={"kind": "text", "width": width, "height": width, "lines": [line]},
        asked="",
        answer=digit,
        seen=(digit,),
        counted=(line["colour"], digit),
        options=DIGITS,
    )


ASK: Mapping[str, Callable[[Random, int], Question]] = {
    "colour": ask_colour,
    "count": ask_count,
    "bars": ask_bars,
    "digit": ask_digit,
    "shape": ask_shape,
}

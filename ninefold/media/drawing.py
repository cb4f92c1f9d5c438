"""Drawings made of marks: lines, areas, shapes and text, each over those before it, with sharp edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from PIL import Image, ImageDraw

from ninefold.core.errors import UserError
from ninefold.media.glyphs import draw_text
from ninefold.media.shapes import COLOURS, draw_shape

Mark = dict[str, Any]


def drawing(width: int, height: int, marks: Sequence[Mark]) -> dict[str, Any]:
    """The description of these marks on white, for `media.scene`."""
    return {"kind": "drawing", "width": width, "height": height, "marks": list(marks)}


def line(points: Sequence[Sequence[int]], colour: str, thick: int = 1) -> Mark:
    """The mark of straight pieces that join these points."""
    return {"mark": "line", "points": [list(point) for point in points], "colour": colour, "thick": thick}


def area(points: Sequence[Sequence[int]], colour: str) -> Mark:
    """The mark of a filled polygon with these corners, its outline included."""
    return {"mark": "area", "points": [list(point) for point in points], "colour": colour}


def shape(kind: str, colour: str, x: int, y: int, size: int) -> Mark:
    """The mark of a shape in the square of side `size` whose upper left pixel is (x, y)."""
    return {"mark": "shape", "shape": kind, "colour": colour, "x": x, "y": y, "size": size}


def text(words: str, colour: str, x: int, y: int, zoom: int = 1) -> Mark:
    """The mark of a line of text whose upper left pixel is (x, y)."""
    return {"mark": "text", "text": words, "colour": colour, "x": x, "y": y, "zoom": zoom}


def draw_mark(image: Image.Image, mark: Mapping[str, Any]) -> None:
    """One mark. Raises UserError for an unknown kind."""
    kind, colour = mark["mark"], mark["colour"]
    if kind == "line":
        ImageDraw.Draw(image).line([tuple(point) for point in mark["points"]], COLOURS[colour], mark["thick"])
    elif kind == "area":
        ImageDraw.Draw(image).polygon([tuple(point) for point in mark["points"]], COLOURS[colour])
    elif kind == "shape":
        draw_shape(image, mark["shape"], colour, mark["x"], mark["y"], mark["size"])
    elif kind == "text":
        draw_text(image, mark["text"], colour, mark["x"], mark["y"], mark["zoom"])
    else:
        raise UserError(f"no kind of mark {kind!r}; there are line, area, shape and text")

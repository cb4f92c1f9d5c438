"""Plain shapes in plain colours on a ground, and charts made of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from ninefold.core.errors import UserError
from ninefold.core.picture import Pixels

COLOURS: dict[str, tuple[int, int, int]] = {
    "white": (255, 255, 255),
    "black": (0, 0, 0),
    "red": (220, 30, 30),
    "green": (30, 170, 50),
    "blue": (40, 70, 230),
    "yellow": (245, 210, 30),
    "purple": (150, 50, 180),
    "grey": (140, 140, 140),
}
SHAPES: tuple[str, ...] = ("circle", "square", "triangle", "cross")


def canvas(width: int, height: int, ground: str = "white") -> Image.Image:
    """An empty picture."""
    return Image.new("RGB", (width, height), COLOURS[ground])


def pixels_of(image: Image.Image) -> Pixels:
    """[H, W, 3]"""
    return np.asarray(image.convert("RGB"), np.uint8)


def draw_shape(image: Image.Image, shape: str, colour: str, x: int, y: int, size: int) -> None:
    """A shape inside the square of side `size` whose upper left pixel is (x, y). Raises UserError for an unknown shape."""
    pen, fill, end = ImageDraw.Draw(image), COLOURS[colour], size - 1
    if shape == "circle":
        pen.ellipse((x, y, x + end, y + end), fill)
    elif shape == "square":
        pen.rectangle((x, y, x + end, y + end), fill)
    elif shape == "triangle":
        pen.polygon([(x, y + end), (x + end, y + end), (x + end / 2, y)], fill)
    elif shape == "cross":
        arm = size // 3
        pen.rectangle((x + arm, y, x + end - arm, y + end), fill)
        pen.rectangle((x, y + arm, x + end, y + end - arm), fill)
    else:
        raise UserError(f"no shape {shape!r}; there are {', '.join(SHAPES)}")


def draw_bars(image: Image.Image, bars: Sequence[tuple[str, int]], most: int) -> None:
    """Bars of (colour, value) from left to right on the lower edge; `most` would fill the height."""
    pen = ImageDraw.Draw(image)
    pitch = image.width / len(bars)
    for n, (colour, value) in enumerate(bars):
        left, right = round(n * pitch + pitch / 8), round((n + 1) * pitch - pitch / 8) - 1
        top = round(image.height * (1 - value / most))
        if value:
            pen.rectangle((left, top, right, image.height - 1), COLOURS[colour])


def draw_line(image: Image.Image, values: Sequence[int], most: int, colour: str) -> None:
    """Points of equal distance joined by a line; value 0 lies on the lower edge, `most` on the upper one."""
    end = image.height - 1
    pitch = (image.width - 1) / max(len(values) - 1, 1)
    points = [(round(n * pitch), round(end * (1 - value / most))) for n, value in enumerate(values)]
    ImageDraw.Draw(image).line(points, COLOURS[colour], 2)

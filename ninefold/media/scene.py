"""A picture's description as JSON, and the drawing of it: what tasks and documents hold in place of pixels. [ours]

Every description has `kind`, `width` and `height`, and what its kind asks for:

    shapes  ground; items: [{shape, colour, x, y, size}]     text  lines: [{text, colour, x, y, zoom}]
    bars    bars: [[colour, value]]; most                    line  values: [n]; most; colour
    svg     source                                           page  source
    png     data: base64 of an image file (its own width and height)
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from PIL import Image

from ninefold.core.errors import UserError
from ninefold.core.picture import Picture
from ninefold.media.glyphs import draw_text
from ninefold.media.page import render_page
from ninefold.media.png import LARGEST, from_png
from ninefold.media.shapes import canvas, draw_bars, draw_line, draw_shape, pixels_of
from ninefold.media.svg import render_svg

Scene = Mapping[str, Any]
CACHED = 4096
"""Pictures remembered: the samples of a group, and the models that are compared, are shown the same ones."""


def draw(scene: Scene) -> Picture:
    """The picture of a description; equal descriptions give equal pictures. Raises UserError for what is none."""
    return _drawn(json.dumps(scene, sort_keys=True))


@lru_cache(CACHED)
def _drawn(text: str) -> Picture:
    scene: dict[str, Any] = json.loads(text)
    kind = str(scene.get("kind"))
    try:
        if kind == "png":
            return from_png(base64.b64decode(scene["data"], validate=True))
        if kind not in _KINDS:
            raise UserError(f"no kind of picture {kind!r}; there are {', '.join([*_KINDS, 'png'])}")
        width, height = scene["width"], scene["height"]
        if not all(isinstance(side, int) and 1 <= side <= LARGEST for side in (width, height)):
            raise UserError(f"a picture is 1 to {LARGEST} pixels wide and high, not {width}×{height}")
        return Picture.of(pixels_of(_KINDS[kind](scene, width, height)))
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise UserError(f"a picture of kind {kind!r} cannot be drawn: {type(error).__name__} {error}") from None


def _shapes(scene: Scene, width: int, height: int) -> Image.Image:
    image = canvas(width, height, scene.get("ground", "white"))
    for item in scene["items"]:
        draw_shape(image, item["shape"], item["colour"], item["x"], item["y"], item["size"])
    return image


def _text(scene: Scene, width: int, height: int) -> Image.Image:
    image = canvas(width, height, scene.get("ground", "white"))
    for line in scene["lines"]:
        draw_text(image, line["text"], line["colour"], line["x"], line["y"], line.get("zoom", 1))
    return image


def _bars(scene: Scene, width: int, height: int) -> Image.Image:
    image = canvas(width, height)
    draw_bars(image, scene["bars"], scene["most"])
    return image


def _line(scene: Scene, width: int, height: int) -> Image.Image:
    image = canvas(width, height)
    draw_line(image, scene["values"], scene["most"], scene["colour"])
    return image


_KINDS: Mapping[str, Callable[[Scene, int, int], Image.Image]] = {
    "shapes": _shapes,
    "text": _text,
    "bars": _bars,
    "line": _line,
    "svg": lambda scene, width, height: render_svg(scene["source"], width, height),
    "page": lambda scene, width, height: render_page(scene["source"], width, height),
}

"""A picture's description as JSON, and the drawing of it: what tasks and documents hold in place of pixels. [ours]

Every description has `kind`, `width` and `height`, and what its kind asks for:

    shapes  ground; items: [{shape, colour, x, y, size}]     text  lines: [{text, colour, x, y, zoom}]
    bars    bars: [[colour, value]]; most                    line  values: [n]; most; colour
    svg     source                                           page  source
    drawing ground; marks: as `media.drawing` makes them     sheet ground; items: [{of, x, y}], other pictures
    view    of: another picture; box: a part of it, scaled to width and height by the mean of each pixel's area
    turned  of: another picture; mirrored (left to right), then by quarters clockwise (its own width and height)
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
from ninefold.media.drawing import draw_mark
from ninefold.media.glyphs import draw_text
from ninefold.media.page import render_page
from ninefold.media.png import LARGEST, from_png
from ninefold.media.shapes import canvas, draw_bars, draw_line, draw_shape, pixels_of
from ninefold.media.svg import render_svg
from ninefold.media.view import crop, turned

Scene = Mapping[str, Any]
CACHED, CACHED_LARGE = 4096, 32
"""Pictures remembered: the samples of a group, and the models that are compared, are shown the same ones."""
LARGE = 128
"""Side from which on a picture takes too much memory to be one of so many."""
DEEPEST = 4
"""Pictures within each other."""


def draw(scene: Scene) -> Picture:
    """The picture of a description; equal descriptions give equal pictures. Raises UserError for what is none."""
    if _depth(scene) > DEEPEST:
        raise UserError(f"pictures lie within each other more than {DEEPEST} deep")
    sides = [scene.get(name) for name in ("width", "height")]
    small = all(isinstance(side, int) and side < LARGE for side in sides)
    return (_small if small else _large)(json.dumps(scene, sort_keys=True))


def _depth(scene: Any) -> int:
    """1, and as much as the deepest of the pictures that it is made of."""
    if not isinstance(scene, Mapping):
        return 0
    items = scene.get("items")
    inner = [scene.get("of")]
    inner += [item.get("of") for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
    return 1 + max(map(_depth, inner))


def _drawn(text: str) -> Picture:
    scene: dict[str, Any] = json.loads(text)
    kind = str(scene.get("kind"))
    try:
        if kind == "png":
            return from_png(base64.b64decode(scene["data"], validate=True))
        if kind == "turned":
            return turned(draw(scene["of"]), scene["quarters"], mirrored=scene["mirrored"])
        if kind not in _KINDS:
            raise UserError(f"no kind of picture {kind!r}; there are {', '.join([*_KINDS, 'turned', 'png'])}")
        width, height = scene["width"], scene["height"]
        if not all(isinstance(side, int) and 1 <= side <= LARGEST for side in (width, height)):
            raise UserError(f"a picture is 1 to {LARGEST} pixels wide and high, not {width}×{height}")
        return Picture.of(pixels_of(_KINDS[kind](scene, width, height)))
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise UserError(f"a picture of kind {kind!r} cannot be drawn: {type(error).__name__} {error}") from None


_small, _large = lru_cache(CACHED)(_drawn), lru_cache(CACHED_LARGE)(_drawn)


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


def _drawing(scene: Scene, width: int, height: int) -> Image.Image:
    image = canvas(width, height, scene.get("ground", "white"))
    for mark in scene["marks"]:
        draw_mark(image, mark)
    return image


def _view(scene: Scene, width: int, height: int) -> Image.Image:
    picture = draw(scene["of"])
    part = crop(picture, tuple(scene["box"])) if "box" in scene else picture
    return Image.fromarray(part.pixels_HWC).resize((width, height), Image.Resampling.BOX)


def _sheet(scene: Scene, width: int, height: int) -> Image.Image:
    image = canvas(width, height, scene.get("ground", "white"))
    for item in scene["items"]:
        image.paste(Image.fromarray(draw(item["of"]).pixels_HWC), (item["x"], item["y"]))
    return image


_KINDS: Mapping[str, Callable[[Scene, int, int], Image.Image]] = {
    "shapes": _shapes,
    "text": _text,
    "bars": _bars,
    "line": _line,
    "drawing": _drawing,
    "view": _view,
    "sheet": _sheet,
    "svg": lambda scene, width, height: render_svg(scene["source"], width, height),
    "page": lambda scene, width, height: render_page(scene["source"], width, height),
}

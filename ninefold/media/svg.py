"""A small subset of SVG: rect, circle, line, polygon, polyline, and paths of M L H V C Q Z in absolute or relative form.

Fill and stroke are the colours that `media.shapes` names, `none`, or `#rrggbb`. Anything else is refused, never guessed. [ours]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from PIL import Image, ImageDraw

from ninefold.core.errors import UserError
from ninefold.media.shapes import COLOURS

Point = tuple[float, float]
OVERSAMPLING = 4
"""Drawn so many times larger and averaged: edges are smooth, and equal on every machine."""
FLAT = 12
"""Straight pieces that a curve is drawn with."""
LONGEST = 20_000
"""Characters of a source."""
_TOKEN = re.compile(r"[MLHVCQZmlhvcqz]|-?(?:\d+\.?\d*|\.\d+)")
_ARGUMENTS = {"M": 2, "L": 2, "H": 1, "V": 1, "C": 6, "Q": 4, "Z": 0}


def render_svg(source: str, width: int, height: int) -> Image.Image:
    """A drawing fitted to the picture by its `viewBox`, on white. Raises UserError naming what is not understood."""
    if len(source) > LONGEST or "<!" in source:
        raise UserError(f"an SVG source has at most {LONGEST} characters and declares nothing")
    try:
        root = ElementTree.fromstring(source)
    except ElementTree.ParseError as error:
        raise UserError(f"not XML: {error}") from None
    if _tag(root) != "svg":
        raise UserError(f"an SVG source begins with <svg>, this one with <{_tag(root)}>")
    left, top, wide, tall = _numbers(root.get("viewBox", f"0 0 {width} {height}"), 4)
    if wide <= 0 or tall <= 0:
        raise UserError("the viewBox has no area")
    image = Image.new("RGB", (width * OVERSAMPLING, height * OVERSAMPLING), "white")
    across, down = image.width / wide, image.height / tall

    def placed(points: list[Point]) -> list[Point]:
        return [((x - left) * across, (y - top) * down) for x, y in points]

    pen = ImageDraw.Draw(image)
    for element in root:
        fill, stroke = _colour(element.get("fill", "black")), _colour(element.get("stroke", "none"))
        thick = max(1, round(_number(element.get("stroke-width", "1")) * across))
        for points, closed in _outlines(element):
            corners = placed(points)
            if fill and closed and len(corners) > 2:
                pen.polygon(corners, fill)
            if stroke and len(corners) > 1:
                pen.line([*corners, corners[0]] if closed else corners, stroke, thick)
    return image.resize((width, height), Image.Resampling.BOX)


def _outlines(element: ElementTree.Element) -> Iterator[tuple[list[Point], bool]]:
    """(points, whether they close) of each line that the element draws."""
    tag = _tag(element)

    def number(name: str) -> float:
        return _number(element.get(name, "0"))

    if tag == "rect":
        x, y, w, h = (number(name) for name in ("x", "y", "width", "height"))
        yield [(x, y), (x + w, y), (x + w, y + h), (x, y + h)], True
    elif tag == "circle":
        yield _circle(number("cx"), number("cy"), number("r")), True
    elif tag == "line":
        yield [(number("x1"), number("y1")), (number("x2"), number("y2"))], False
    elif tag in ("polygon", "polyline"):
        flat = _numbers(element.get("points", ""))
        yield list(zip(flat[::2], flat[1::2])), tag == "polygon"
    elif tag == "path":
        yield from _path(element.get("d", ""))
    else:
        raise UserError(f"<{tag}> is not among the elements that are drawn: rect, circle, line, polygon, polyline, path")


def _circle(x: float, y: float, radius: float) -> list[Point]:
    """Four curves that differ from a circle by less than a thousandth of the radius."""
    k = 0.5523 * radius
    quarters = (
        ((x + radius, y), (x + radius, y + k), (x + k, y + radius), (x, y + radius)),
        ((x, y + radius), (x - k, y + radius), (x - radius, y + k), (x - radius, y)),
        ((x - radius, y), (x - radius, y - k), (x - k, y - radius), (x, y - radius)),
        ((x, y - radius), (x + k, y - radius), (x + radius, y - k), (x + radius, y)),
    )
    return [point for quarter in quarters for point in _curve(*quarter)]


def _curve(a: Point, b: Point, c: Point, d: Point) -> list[Point]:
    """Points of a cubic curve, the first left out."""
    steps = [n / FLAT for n in range(1, FLAT + 1)]
    weights = [((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3) for t in steps]
    points = (a, b, c, d)
    return [(sum(w * p[0] for w, p in zip(ws, points)), sum(w * p[1] for w, p in zip(ws, points))) for ws in weights]


def _path(text: str) -> Iterator[tuple[list[Point], bool]]:
    """The lines of a path."""
    if _TOKEN.sub("", text).strip(" ,\n\t"):
        raise UserError(f"path {text[:40]!r}: only M, L, H, V, C, Q and Z are drawn")
    tokens = _TOKEN.findall(text)
    points: list[Point] = []
    command, at = "", 0
    while at < len(tokens):
        if tokens[at].isalpha():
            command, at = tokens[at], at + 1
        count = _ARGUMENTS[command.upper()] if command else -1
        values = tokens[at : at + count] if count > 0 else []
        if count < 0 or len(values) != max(count, 0) or any(v.isalpha() for v in values):
            raise UserError(f"path {text[:40]!r}: a command lacks its numbers")
        at += len(values)
        if command in "Zz":
            yield points, True
            points, command = points[:1], ""
            continue
        if command in "Mm" and len(points) > 1:
            yield points, False
        origin = points[-1] if points and command.islower() else (0.0, 0.0)
        points = _extended(points, command.upper(), [float(v) for v in values], origin)
        if command in "Mm":
            command = "L" if command == "M" else "l"
    if len(points) > 1:
        yield points, False


def _extended(points: list[Point], command: str, values: list[float], origin: Point) -> list[Point]:
    """A line's points after one more command; `origin` is what its numbers count from."""
    x, y = origin
    if command == "M":
        return [(x + values[0], y + values[1])]
    if not points:
        raise UserError("a path begins with M")
    last = points[-1]
    if command == "H":
        return [*points, (x + values[0], last[1])]
    if command == "V":
        return [*points, (last[0], y + values[0])]
    given = [(x + a, y + b) for a, b in zip(values[::2], values[1::2])]
    if command == "L":
        return [*points, *given]
    if command == "C":
        return [*points, *_curve(last, *given)]
    middle, end = given
    # A quadratic curve is the cubic one whose controls lie two thirds of the way to its own.
    b, c = (tuple(p[i] + 2 / 3 * (middle[i] - p[i]) for i in (0, 1)) for p in (last, end))
    return [*points, *_curve(last, (b[0], b[1]), (c[0], c[1]), end)]


def _tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _colour(text: str) -> tuple[int, int, int] | None:
    if text == "none":
        return None
    if re.fullmatch(r"#[0-9a-fA-F]{6}", text):
        return int(text[1:3], 16), int(text[3:5], 16), int(text[5:], 16)
    if text not in COLOURS:
        raise UserError(f"no colour {text!r}; there are {', '.join(COLOURS)}, none and #rrggbb")
    return COLOURS[text]


def _number(text: str) -> float:
    return _numbers(text, 1)[0]


def _numbers(text: str, count: int | None = None) -> list[float]:
    try:
        values = [float(part) for part in text.replace(",", " ").split()]
    except ValueError:
        raise UserError(f"not numbers: {text[:40]!r}") from None
    if (count is not None and len(values) != count) or not all(abs(v) <= 1e6 for v in values):
        raise UserError(f"{text[:40]!r} must be {count or 'some'} numbers of at most 1e6")
    return values

"""A small subset of HTML: `h1`, `p` and `div`, with `style="background: …; color: …; width: …px; height: …px"`. [ours]

Blocks stand below each other, those inside a `div` within it; text wraps. Anything else is refused, never guessed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

from PIL import Image, ImageDraw

from ninefold.core.errors import UserError
from ninefold.media.glyphs import ADVANCE, HEIGHT, draw_text
from ninefold.media.shapes import COLOURS, canvas

TAGS = {"h1": 2, "p": 1, "div": 1}
"""Element → how large its letters are."""
MARGIN = 1
"""Pixels around a block's content."""
LONGEST = 20_000
"""Characters of a source."""


@dataclass(slots=True, kw_only=True)
class Block:
    """One element."""

    tag: str
    style: dict[str, str]
    text: str = ""
    inside: list[Block] = field(default_factory=list["Block"])

    def colour(self, name: str, default: str | None) -> str | None:
        """A colour of the style. Raises UserError for one without a name here."""
        colour = self.style.get(name, default)
        if colour is not None and colour not in COLOURS:
            raise UserError(f"no colour {colour!r}; there are {', '.join(COLOURS)}")
        return colour

    def pixels(self, name: str) -> int | None:
        """A length of the style. Raises UserError for other units than px."""
        if name not in self.style:
            return None
        number = self.style[name].removesuffix("px")
        if not number.isdecimal() or int(number) > 10_000:
            raise UserError(f"{name}: {self.style[name]!r} must be whole pixels, e.g. 8px")
        return int(number)


def render_page(source: str, width: int, height: int) -> Image.Image:
    """A page, cut at the picture's edges. Raises UserError naming what is not understood."""
    if len(source) > LONGEST:
        raise UserError(f"a page's source has at most {LONGEST} characters")
    reader = _Reader()
    reader.feed(source)
    reader.close()
    image = canvas(width, height)
    y = MARGIN
    for block in reader.done():
        y = _draw(image, block, MARGIN, y, width - 2 * MARGIN, "black")
    return image


def _draw(image: Image.Image, block: Block, x: int, y: int, width: int, colour: str) -> int:
    """Draw a block whose upper left corner is (x, y); where the next one begins."""
    colour = block.colour("color", colour) or colour
    size = TAGS[block.tag]
    width = min(width, block.pixels("width") or width)
    lines = _wrapped(block.text, max(1, (width - 2 * MARGIN + size) // (ADVANCE * size)))
    ground, set_height = block.colour("background", None), block.pixels("height")
    bottom = y + (_height(block, width) if set_height is None else set_height)
    if ground is not None and bottom > y and width > 0:
        ImageDraw.Draw(image).rectangle((x, y, x + width - 1, bottom - 1), COLOURS[ground])
    below = y + MARGIN
    for line in lines:
        draw_text(image, line, colour, x + MARGIN, below, size)
        below += (HEIGHT + 1) * size
    for inner in block.inside:
        below = _draw(image, inner, x + MARGIN, below, width - 2 * MARGIN, colour)
    return bottom + MARGIN


def _height(block: Block, width: int) -> int:
    """Pixels that the content asks for."""
    size = TAGS[block.tag]
    lines = _wrapped(block.text, max(1, (width - 2 * MARGIN + size) // (ADVANCE * size)))
    height = 2 * MARGIN + len(lines) * (HEIGHT + 1) * size
    for inner in block.inside:
        own = min(width - 2 * MARGIN, inner.pixels("width") or width)
        given = inner.pixels("height")
        height += (_height(inner, own) if given is None else given) + MARGIN
    return height


def _wrapped(text: str, most: int) -> list[str]:
    """Lines of at most `most` characters, cut between words where there are any."""
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= most:
            lines[-1] += f" {word}"
        else:
            lines += [word[n : n + most] for n in range(0, len(word), most)]
    return lines


class _Reader(HTMLParser):
    """From a source to blocks."""

    def __init__(self) -> None:
        super().__init__()
        self._open = [Block(tag="div", style={})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in TAGS:
            raise UserError(f"<{tag}> is not among the elements that are drawn: {', '.join(TAGS)}")
        given = dict(attrs)
        if other := given.keys() - {"style"}:
            raise UserError(f"<{tag}> has the attribute {min(other)!r}; only style is understood")
        style = dict(_declaration(part) for part in (given.get("style") or "").split(";") if part.strip())
        block = Block(tag=tag, style=style)
        self._open[-1].inside.append(block)
        self._open.append(block)
        if len(self._open) > 20:
            raise UserError("elements lie more than 20 deep")

    def handle_endtag(self, tag: str) -> None:
        if len(self._open) < 2 or self._open[-1].tag != tag:
            raise UserError(f"</{tag}> closes nothing")
        self._open.pop()

    def handle_data(self, data: str) -> None:
        if data.strip():
            if len(self._open) < 2:
                raise UserError(f"text outside any element: {data.strip()[:40]!r}")
            self._open[-1].text += f" {data.strip()}"

    def done(self) -> list[Block]:
        """The outermost blocks."""
        if len(self._open) > 1:
            raise UserError(f"<{self._open[-1].tag}> is not closed")
        return self._open[0].inside


def _declaration(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or name.strip() not in ("background", "color", "width", "height"):
        raise UserError(f"style {text.strip()!r}: only background, color, width and height are understood")
    return name.strip(), value.strip()

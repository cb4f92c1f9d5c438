"""Letters and digits of three by five pixels, so that no font of the system is asked for. [ours]"""

from __future__ import annotations

from PIL import Image, ImageDraw

from ninefold.media.shapes import COLOURS

WIDTH, HEIGHT = 3, 5
ADVANCE, LEADING = WIDTH + 1, HEIGHT + 1
_CHARACTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ .,:-+=/!?%"
_ROWS = """
    75557 26227 71747 71717 55711 74717 74757 71222 75757 75717 25755 65656 34443 65556 74647 74644 34553 55755
    72227 11152 55655 44447 57755 75555 25552 65644 25563 65655 34216 72222 55557 55552 55775 55255 55222 71247
    00000 00002 00024 02020 00700 02720 07070 11244 22202 71202 51245
"""
GLYPHS: dict[str, str] = dict(zip(_CHARACTERS, _ROWS.split(), strict=True))
"""Character → its rows from above, each an octal digit whose bits are pixels. Small letters look like capitals."""


def draw_text(image: Image.Image, text: str, colour: str, x: int, y: int, zoom: int = 1) -> None:
    """One line whose upper left pixel is (x, y), each pixel of a glyph `zoom` wide; unknown characters look like `?`."""
    pen = ImageDraw.Draw(image)
    for place, character in enumerate(text.upper()):
        for row, bits in enumerate(GLYPHS.get(character, GLYPHS["?"])):
            for column in range(WIDTH):
                if int(bits, 8) & 4 >> column:
                    left, top = x + zoom * (place * ADVANCE + column), y + zoom * row
                    pen.rectangle((left, top, left + zoom - 1, top + zoom - 1), COLOURS[colour])


def text_width(text: str, zoom: int = 1) -> int:
    """Pixels from the first glyph's left edge to the last one's right edge."""
    return zoom * (len(text) * ADVANCE - 1) if text else 0

"""Looking closer: parts of a picture, and larger ones."""

from __future__ import annotations

import numpy as np

from ninefold.core.errors import UserError
from ninefold.core.picture import Picture

Box = tuple[int, int, int, int]
"""Left, upper, right and lower edge in pixels; the right and lower ones lie outside."""


def crop(picture: Picture, box: Box) -> Picture:
    """The part inside the box. Raises UserError where that is not within the picture."""
    left, top, right, bottom = box
    if not (0 <= left < right <= picture.width and 0 <= top < bottom <= picture.height):
        raise UserError(f"the box {list(box)} does not lie within {picture.width}×{picture.height} pixels")
    return Picture.of(picture.pixels_HWC[top:bottom, left:right].copy())


def zoom(picture: Picture, times: int) -> Picture:
    """Each pixel as a square of `times` pixels a side."""
    if not 1 <= times <= 16:
        raise UserError(f"a picture can be zoomed 1 to 16 times, not {times}")
    return Picture.of(picture.pixels_HWC.repeat(times, 0).repeat(times, 1))


def turned(picture: Picture, quarters: int, *, mirrored: bool = False) -> Picture:
    """Mirrored left to right where wanted, then turned clockwise by so many quarters."""
    pixels = picture.pixels_HWC[:, ::-1] if mirrored else picture.pixels_HWC
    return Picture.of(np.ascontiguousarray(np.rot90(pixels, -quarters)))


def normalised(box: Box, picture: Picture) -> tuple[float, float, float, float]:
    """The same edges as shares of width and height, to three places."""
    sides = (picture.width, picture.height) * 2
    left, top, right, bottom = (round(edge / side, 3) for edge, side in zip(box, sides))
    return left, top, right, bottom


def blank(picture: Picture) -> Picture:
    """A grey picture of the same size: what is left of a question without its picture."""
    return Picture.of(np.full_like(picture.pixels_HWC, 128))

"""Pictures as PNG files, and a folder of them by hash."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image

from ninefold.core.errors import UserError
from ninefold.core.picture import Picture
from ninefold.core.store import write_atomic

LARGEST = 3584
"""Pixels of a side (spec 01: images up to 3584²)."""


def to_png(picture: Picture) -> bytes:
    """Lossless; equal pictures give equal bytes."""
    file = io.BytesIO()
    Image.fromarray(picture.pixels_HWC).save(file, "PNG")
    return file.getvalue()


def from_png(data: bytes) -> Picture:
    """A picture from the bytes of an image file; what is transparent is white. Raises UserError where it is none."""
    try:
        image = Image.open(io.BytesIO(data))
        if max(image.size) > LARGEST:
            raise UserError(
                f"a picture has at most {LARGEST} pixels a side, this one {image.width}×{image.height}; scale it down"
            )
        opaque = Image.new("RGBA", image.size, "white")
        opaque.alpha_composite(image.convert("RGBA"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise UserError(f"not a readable picture: {error}") from None
    return Picture.of(np.asarray(opaque.convert("RGB"), np.uint8))


class PictureStore:
    """A folder with one PNG file per picture, named by its hash."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, picture: Picture) -> str:
        """Keep it; its hash."""
        path = self._path(picture.hash)
        if not path.exists():
            write_atomic(path, to_png(picture))
        return picture.hash

    def get(self, hash: str) -> Picture:
        """Raises UserError where it is not there, or the file holds another picture."""
        path = self._path(hash)
        if not path.exists():
            raise UserError(f"no picture {hash} in {self._folder}")
        picture = from_png(path.read_bytes())
        if picture.hash != hash:
            raise UserError(f"{path} holds another picture than its name says; delete it")
        return picture

    def __contains__(self, hash: str) -> bool:
        return self._path(hash).exists()

    def _path(self, hash: str) -> Path:
        return self._folder / f"{hash}.png"

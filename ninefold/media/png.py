"""Pictures as PNG files."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image, UnidentifiedImageError

from ninefold.core.errors import UserError
from ninefold.core.picture import Picture

LARGEST = 3584
"""Pixels of a side (spec 01: images up to 3584²)."""
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "AVIF", "BMP")


def to_png(picture: Picture) -> bytes:
    """Lossless; equal pictures give equal bytes."""
    file = io.BytesIO()
    Image.fromarray(picture.pixels_HWC).save(file, "PNG")
    return file.getvalue()


def from_png(data: bytes) -> Picture:
    """A picture from the bytes of an image file; what is transparent is white. Raises UserError where it is none."""
    try:
        # Other kinds are read by programs of the system, which nothing that a policy wrote shall reach (PostScript).
        image = Image.open(io.BytesIO(data), formats=FORMATS)
        if max(image.size) > LARGEST:
            raise UserError(
                f"a picture has at most {LARGEST} pixels a side, this one {image.width}×{image.height}; scale it down"
            )
        opaque = Image.new("RGBA", image.size, "white")
        opaque.alpha_composite(image.convert("RGBA"))
    except UserError:
        raise
    except UnidentifiedImageError:
        raise UserError("not a picture, or of an unknown kind; PNG, JPEG, GIF, WebP, AVIF and BMP are read") from None
    except Image.DecompressionBombError:
        raise UserError(f"a picture has at most {LARGEST} pixels a side, and this one has many more; scale it down") from None
    except (OSError, ValueError, SyntaxError, RuntimeError) as error:
        raise UserError(f"not a readable picture: {error}") from None
    return Picture.of(np.asarray(opaque.convert("RGB"), np.uint8))

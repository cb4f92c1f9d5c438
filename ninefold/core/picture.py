"""A picture as data: its pixels, named by the hash of their content."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
"""[H, W, 3] red, green, blue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Two pictures are equal where their hashes are."""

    pixels_HWC: Pixels = field(compare=False, repr=False)
    """[H, W, 3]; never written to."""
    hash: str
    """Of shape and pixels: 32 hexadecimal digits."""

    @staticmethod
    def of(pixels_HWC: Pixels) -> Picture:
        """Name pixels by what they are."""
        assert pixels_HWC.dtype == np.uint8, f"pixels are bytes, not {pixels_HWC.dtype}"
        assert pixels_HWC.ndim == 3, f"pixels are rows × columns × channels, got {pixels_HWC.shape}"
        assert pixels_HWC.shape[2] == 3, f"red, green and blue, got {pixels_HWC.shape}"
        assert pixels_HWC.size, f"no side of a picture is empty, got {pixels_HWC.shape}"
        digest = hashlib.blake2b(repr(pixels_HWC.shape).encode() + np.ascontiguousarray(pixels_HWC).tobytes(), digest_size=16)
        return Picture(pixels_HWC=pixels_HWC, hash=digest.hexdigest())

    @property
    def width(self) -> int:
        return self.pixels_HWC.shape[1]

    @property
    def height(self) -> int:
        return self.pixels_HWC.shape[0]

"""How like a page is to one that it replicates: in its pixels and in what it is made of, both rendered by one browser.

Either is measured between an empty page (0) and the reference (1), so that white space earns nothing.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

PIXELS = 0.97
"""Least likeness of the pixels."""
STRUCTURE = 0.97
"""Least share of the reference's parts that have their counterpart."""
NEAR = 4
"""Pixels by which a part may be off."""

Portrait = Mapping[str, Any]
"""`png` in base 64, and `structure`: [text, colour, x, y, width, height] of every piece of text, and of every ground that is
not white, whose text is empty."""


def alike(page: Portrait, reference: Portrait, empty: Portrait) -> str | None:
    """Why the page is not like the reference; None where it is."""
    pixels = pixel_likeness(*(_pixels(portrait["png"]) for portrait in (page, reference, empty)))
    if pixels < PIXELS:
        return f"its pixels are like the reference's by {pixels:.2f}, not {PIXELS}"
    structure = structure_likeness(page["structure"], reference["structure"])
    if structure < STRUCTURE:
        return f"{structure:.2f} of its parts are those of the reference, not {STRUCTURE}"
    return None


def pixel_likeness(page: NDArray[np.float32], reference: NDArray[np.float32], empty: NDArray[np.float32]) -> float:
    """1 less the absolute error, of [height, width, 3] in 0 to 255, relative to that of an empty page."""
    if page.shape != reference.shape:
        return 0.0
    most = float(np.abs(empty - reference).mean())
    return 1.0 - float(np.abs(page - reference).mean()) / max(most, 1e-6)


def structure_likeness(page: Sequence[Sequence[Any]], reference: Sequence[Sequence[Any]]) -> float:
    """Share of parts with a counterpart, of the larger number of parts: same text and colours, nearly the same place."""
    left = [list(part) for part in page]
    found = 0
    for part in reference:
        match = next((other for other in left if _same(part, other)), None)
        if match is not None:
            left.remove(match)
            found += 1
    return found / max(1, len(page), len(reference))


def _same(part: Sequence[Any], other: Sequence[Any]) -> bool:
    return part[:2] == other[:2] and all(abs(a - b) <= NEAR for a, b in zip(part[2:], other[2:]))


def _pixels(png: str) -> NDArray[np.float32]:
    with Image.open(io.BytesIO(base64.b64decode(png))) as picture:
        return np.asarray(picture.convert("RGB"), dtype=np.float32)

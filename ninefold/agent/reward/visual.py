"""How well an answer about a picture agrees with the truth, in [0, 1], by the kind of answer.

The kinds are those of Kimi K2.5's report (visual reinforcement learning; spec 05, "visual reasoning"): F1 over soft matches
for boxes (by intersection over union) and for points (by a Gaussian of their distance), both under the best assignment;
intersection over union of masks, polygons drawn as masks; normalised edit distance of texts; absolute error of counts.
Widths of Gaussians and errors that score nothing are the caller's. [ours]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import networkx
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Box = tuple[float, float, float, float]
"""Left, upper, right and lower edge; the right and lower ones lie outside."""
Point = tuple[float, float]
Mask = NDArray[np.bool_]
"""[H, W]"""
Item = TypeVar("Item")


def iou(a: Box, b: Box) -> float:
    """Intersection over union of two boxes; 0 where either has no area."""
    wide = min(a[2], b[2]) - max(a[0], b[0])
    tall = min(a[3], b[3]) - max(a[1], b[1])
    if wide <= 0 or tall <= 0:
        return 0.0
    return wide * tall / (_area(a) + _area(b) - wide * tall)


def box_f1(answered: Sequence[Box], wanted: Sequence[Box]) -> float:
    """F1 of boxes whose matches count by their intersection over union (IoU-F1)."""
    return soft_f1(answered, wanted, iou)


def point_f1(answered: Sequence[Point], wanted: Sequence[Point], width: float) -> float:
    """F1 of points whose matches count exp(−d²/2·width²), d their distance; all in pixels."""
    return soft_f1(answered, wanted, lambda a, b: math.exp(-((math.dist(a, b) / width) ** 2) / 2))


def soft_f1(answered: Sequence[Item], wanted: Sequence[Item], match: Callable[[Item, Item], float]) -> float:
    """2·Σ match / (answered + wanted) over the assignment, each item used once at most, that makes it largest.

    `match` lies in [0, 1]. Two empty lists agree.
    """
    if not answered and not wanted:
        return 1.0
    if not answered or not wanted:
        return 0.0
    matches = np.array([[match(a, b) for b in wanted] for a in answered])
    return 2.0 * sum(float(matches[pair]) for pair in assign(matches)) / (len(answered) + len(wanted))


def mask_iou(a: Mask, b: Mask) -> float:
    """Intersection over union of two masks of one shape; two empty ones agree."""
    union = int((a | b).sum())
    return int((a & b).sum()) / union if union else 1.0


def polygon_mask(corners: Sequence[Point], width: int, height: int) -> Mask:
    """[height, width] True inside a polygon and on its outline; fewer than three corners have no inside."""
    image = Image.new("1", (width, height))
    if len(corners) > 2:
        ImageDraw.Draw(image).polygon([(x, y) for x, y in corners], 1)
    return np.asarray(image, np.bool_)


def text_agreement(answered: str, wanted: str) -> float:
    """1 − edit distance / length of the longer text; two empty texts agree."""
    longer = max(len(answered), len(wanted))
    return 1.0 - edit_distance(answered, wanted) / longer if longer else 1.0


def edit_distance(a: str, b: str) -> int:
    """Fewest insertions, deletions and replacements of a character that turn one into the other (Levenshtein)."""
    row = list(range(len(b) + 1))
    for n, left in enumerate(a, 1):
        before, row[0] = row[0], n
        for m, right in enumerate(b, 1):
            before, row[m] = row[m], min(row[m] + 1, row[m - 1] + 1, before + (left != right))
    return row[-1]


def count_agreement(answered: float, wanted: float, off: float) -> float:
    """1 − |error| / off, 0 from an error of `off` on."""
    return max(0.0, 1.0 - abs(answered - wanted) / off)


def assign(gains: NDArray[np.float64]) -> list[tuple[int, int]]:
    """(row, column) pairs that use each at most once and whose gains, none below 0, have the largest sum."""
    rows, columns = gains.shape
    pairs = networkx.Graph()
    pairs.add_weighted_edges_from(
        (row, rows + column, float(gains[row, column])) for row in range(rows) for column in range(columns)
    )
    return sorted((min(pair), max(pair) - rows) for pair in networkx.max_weight_matching(pairs, maxcardinality=True))


def _area(box: Box) -> float:
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])

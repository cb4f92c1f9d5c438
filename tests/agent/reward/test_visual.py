"""Agreement of answers about pictures: bounds, symmetry, and brute force beside the assignment."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninefold.agent.reward.visual import (
    assign,
    box_f1,
    count_agreement,
    edit_distance,
    iou,
    mask_iou,
    point_f1,
    polygon_mask,
    text_agreement,
)

SIDE, LENGTH = st.integers(0, 40), st.integers(1, 20)
BOXES = st.lists(st.builds(lambda x, y, w, h: (x, y, x + w, y + h), SIDE, SIDE, LENGTH, LENGTH), max_size=5)
POINTS = st.lists(st.tuples(SIDE, SIDE), max_size=5)


@given(BOXES, BOXES)
def test_boxes(a, b) -> None:
    score = box_f1(a, b)
    assert 0.0 <= score <= 1.0 + 1e-12
    assert score == pytest.approx(box_f1(b, a))
    assert box_f1(a, a[::-1]) == pytest.approx(1.0)
    if a:
        assert box_f1(a, []) == box_f1([], a) == 0.0
        assert box_f1(a, [*a, (900, 900, 901, 901)]) == pytest.approx(2 * len(a) / (2 * len(a) + 1))


@given(st.integers(-15, 15), st.integers(-15, 15))
def test_the_intersection_of_boxes_is_that_of_their_masks(x: int, y: int) -> None:
    a, b = (20, 20, 30, 34), (20 + x, 20 + y, 29 + x, 28 + y)
    masks = []
    for left, top, right, bottom in (a, b):
        mask = np.zeros((60, 60), np.bool_)
        mask[top:bottom, left:right] = True
        masks.append(mask)
    assert iou(a, b) == pytest.approx(mask_iou(*masks))


@given(POINTS, POINTS, st.floats(0.5, 20))
def test_points(a, b, width: float) -> None:
    assert 0.0 <= point_f1(a, b, width) <= 1.0 + 1e-12
    assert point_f1(a, b, width) == pytest.approx(point_f1(b, a, width))
    assert point_f1(a, a[::-1], width) == pytest.approx(1.0)
    assert point_f1(a, b, width) <= point_f1(a, b, 2 * width) + 1e-12


def test_a_point_at_one_width_counts_as_a_gaussian_has_it() -> None:
    assert point_f1([(3, 4)], [(0, 0)], 5.0) == pytest.approx(math.exp(-0.5))
    # A grid over everything finds all points and is right about few.
    grid = [(x, y) for x in range(0, 100, 10) for y in range(0, 100, 10)]
    assert point_f1(grid, [(20, 20), (70, 40)], 5.0) < 0.05


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 9999))
def test_no_other_assignment_gains_more(rows: int, columns: int, seed: int) -> None:
    gains = np.random.default_rng(seed).integers(0, 6, (rows, columns)) / 5
    pairs = assign(gains)
    assert len(pairs) == min(rows, columns)
    assert len({row for row, _ in pairs}) == len({column for _, column in pairs}) == len(pairs)
    wide = gains if rows <= columns else gains.T
    best = max(sum(wide[n, m] for n, m in enumerate(chosen)) for chosen in permutations(range(wide.shape[1]), len(wide)))
    assert sum(gains[pair] for pair in pairs) == pytest.approx(best)


@given(st.text(max_size=12), st.text(max_size=12), st.text(max_size=12))
def test_edit_distance_is_a_distance(a: str, b: str, c: str) -> None:
    assert edit_distance(a, a) == 0
    assert edit_distance(a, b) == edit_distance(b, a)
    assert (edit_distance(a, b) == 0) == (a == b)
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)
    assert abs(len(a) - len(b)) <= edit_distance(a, b) <= max(len(a), len(b))
    assert 0.0 <= text_agreement(a, b) <= 1.0


def test_texts_counts_and_polygons() -> None:
    assert edit_distance("kitten", "sitting") == 3
    assert text_agreement("", "") == 1.0
    assert text_agreement("abcd", "abxd") == 0.75
    assert [count_agreement(n, 10, 5) for n in (10, 9, 14, 15, 99)] == pytest.approx([1.0, 0.8, 0.2, 0.0, 0.0])
    square = polygon_mask([(2, 2), (7, 2), (7, 7), (2, 7)], 12, 10)
    assert square.shape == (10, 12)
    assert square.sum() == 36
    assert not polygon_mask([(2, 2), (7, 2)], 12, 10).any()
    assert mask_iou(square, square) == 1.0
    assert mask_iou(square, ~square) == 0.0
    assert mask_iou(np.zeros((2, 2), np.bool_), np.zeros((2, 2), np.bool_)) == 1.0

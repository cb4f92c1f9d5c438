"""The sandbox's picture library against Pillow and numpy."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from ninefold.agent.env.visual.picture import Picture, from_png
from ninefold.media.png import from_png as decode

PICTURES = st.builds(
    lambda width, height, seed: np.random.default_rng(seed).integers(0, 3, (height, width, 3), np.uint8) * 100,
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(0, 999),
)


def picture(pixels: np.ndarray) -> Picture:
    return Picture(pixels.shape[1], pixels.shape[0], pixels.tobytes())


def pixels(picture: Picture) -> np.ndarray:
    return np.frombuffer(picture.data, np.uint8).reshape(picture.height, picture.width, 3)


@given(PICTURES, st.integers(1, 4), st.integers(-5, 5))
def test_pictures_change_as_arrays_do(array: np.ndarray, times: int, quarters: int) -> None:
    made = picture(array)
    assert (pixels(made.zoom(times)) == array.repeat(times, 0).repeat(times, 1)).all()
    assert (pixels(made.zoom(times).shrink(times)) == array).all()
    assert (pixels(made.mirror()) == array[:, ::-1]).all()
    assert (pixels(made.turn(quarters)) == np.rot90(array, -quarters)).all()
    assert (pixels(made.crop(-3, 0, 5, 7)) == array[:7, :5]).all()
    assert made.at(made.width - 1, 0) == tuple(array[0, -1])
    assert pixels(made.difference(made)).min() == 255
    other = array.copy()
    other[0, 0] ^= 1
    different = (pixels(made.difference(picture(other))) != 255).any(-1)
    assert (different == (array != other).any(-1)).all()


@given(PICTURES)
def test_png_files_are_written_and_read_as_pillow_does(array: np.ndarray) -> None:
    made = picture(array)
    assert (decode(made.png()).pixels_HWC == array).all()
    for mode in ("RGB", "RGBA", "L", "LA"):
        file = io.BytesIO()
        image = Image.fromarray(array).convert(mode)
        image.save(file, "PNG")
        assert (pixels(from_png(file.getvalue())) == np.asarray(image.convert("RGB"))).all()


def test_every_filter_of_png_files_is_undone() -> None:
    x, y = np.meshgrid(np.arange(60), np.arange(50))
    array = np.stack([x * y % 251, x + y, 3 * x], -1).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(array).save(file, "PNG")
    assert (pixels(from_png(file.getvalue())) == array).all()


@given(st.integers(1, 14), st.integers(1, 14), st.integers(0, 999))
def test_spots_are_the_connected_areas(width: int, height: int, seed: int) -> None:
    ink = np.random.default_rng(seed).random((height, width)) < 0.4
    array = np.where(ink[..., None], np.uint8([200, 30, 30]), np.uint8([255, 255, 255]))
    left = {(int(x), int(y)) for y, x in np.argwhere(ink)}
    boxes = []
    while left:
        area, edge = set(), [left.pop()]
        while edge:
            x, y = edge.pop()
            area.add((x, y))
            near = {(x + dx, y + dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)} & left
            left -= near
            edge += near
        xs, ys = zip(*area)
        boxes.append((min(xs), min(ys), max(xs) + 1, max(ys) + 1))
    assert sorted(picture(array).spots((220, 30, 30))) == sorted(boxes)
    assert (pixels(picture(array).only((220, 30, 30)))[..., 0] == np.where(ink, 0, 255)).all()


@pytest.mark.parametrize("data", [b"", b"GIF89a", b"\x89PNG\r\n\x1a\n", picture(np.zeros((2, 2, 3), np.uint8)).png()[:40]])
def test_what_is_no_picture_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        from_png(data)


def test_nothing_lies_outside() -> None:
    made = picture(np.zeros((4, 5, 3), np.uint8))
    other = made.turn()
    wrong = (
        lambda: made.crop(5, 0, 9, 4),
        lambda: made.at(5, 0),
        lambda: Picture(2, 2, b"123"),
        lambda: made.difference(other),
    )
    for act in wrong:
        with pytest.raises(ValueError):
            act()

"""Pictures from descriptions: what is drawn where, the same every time, and nothing guessed."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninefold.core.errors import UserError
from ninefold.core.picture import Picture
from ninefold.media.glyphs import GLYPHS, text_width
from ninefold.media.parts import picture_part, take_pictures
from ninefold.media.png import from_png, to_png
from ninefold.media.scene import draw
from ninefold.media.shapes import COLOURS, SHAPES
from ninefold.media.view import blank, crop, normalised, zoom


def colours(picture: Picture) -> set[tuple[int, ...]]:
    return {tuple(pixel) for pixel in picture.pixels_HWC.reshape(-1, 3).tolist()}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_fills_its_box_and_nothing_else(shape: str) -> None:
    item = {"shape": shape, "colour": "red", "x": 5, "y": 3, "size": 9}
    drawn = draw({"kind": "shapes", "width": 24, "height": 20, "items": [item]})
    red = (drawn.pixels_HWC == COLOURS["red"]).all(-1)
    rows, columns = np.flatnonzero(red.any(1)), np.flatnonzero(red.any(0))
    assert (rows[0], rows[-1], columns[0], columns[-1]) == (3, 11, 5, 13)
    assert colours(drawn) == {COLOURS["red"], COLOURS["white"]}


def test_shapes_and_glyphs_differ() -> None:
    drawn = [
        draw({"kind": "shapes", "width": 8, "height": 8, "items": [{"shape": s, "colour": "blue", "x": 1, "y": 1, "size": 6}]})
        for s in SHAPES
    ]
    assert len({picture.hash for picture in drawn}) == len(SHAPES)
    assert len(set(GLYPHS.values())) == len(GLYPHS)
    assert all(len(rows) == 5 and set(rows) <= set("01234567") for rows in GLYPHS.values())


def test_bars_stand_on_the_lower_edge_in_proportion() -> None:
    drawn = draw({"kind": "bars", "width": 30, "height": 20, "bars": [["red", 5], ["blue", 10], ["green", 0]], "most": 10})
    heights = {name: int((drawn.pixels_HWC == COLOURS[name]).all(-1).any(1).sum()) for name in ("red", "blue", "green")}
    assert heights == {"red": 10, "blue": 20, "green": 0}


def test_text_is_as_wide_as_promised() -> None:
    line = {"text": "H4H", "colour": "black", "x": 2, "y": 1, "zoom": 2}
    drawn = draw({"kind": "text", "width": 40, "height": 12, "lines": [line]})
    ink = (drawn.pixels_HWC == 0).all(-1)
    columns = np.flatnonzero(ink.any(0))
    assert (columns[0], columns[-1] + 1 - columns[0]) == (2, text_width("H4H", 2))
    assert np.flatnonzero(ink.any(1))[-1] == 10


def test_svg_paths_close_curve_and_count_from_where_they_are() -> None:
    def render(path: str) -> Picture:
        return draw({"kind": "svg", "width": 20, "height": 20, "source": f'<svg viewBox="0 0 10 10">{path}</svg>'})

    absolute = render('<path d="M2 2 H8 V8 H2 Z" fill="red"/>')
    assert absolute == render('<path d="m2 2 h6 v6 h-6 z" fill="red"/>')
    assert absolute == render('<rect x="2" y="2" width="6" height="6" fill="red"/>')
    assert absolute == render('<polygon points="2,2 8,2 8,8 2,8" fill="#dc1e1e"/>')
    assert tuple(absolute.pixels_HWC[10, 10]) == COLOURS["red"]
    assert tuple(absolute.pixels_HWC[1, 1]) == COLOURS["white"]
    disc = render('<circle cx="5" cy="5" r="4" fill="black"/>').pixels_HWC[..., 0] / 255
    assert (1 - disc).sum() == pytest.approx(np.pi * 8**2, rel=0.03)
    curve = render('<path d="M1 9 Q5 -7 9 9 Z" fill="black"/>').pixels_HWC[..., 0] / 255
    # Two thirds of the box that a parabola stands in: 8 wide, 8 high, and four pixels to a unit of area.
    assert (1 - curve).sum() == pytest.approx(4 * 2 / 3 * 8 * 8, rel=0.05)


def test_a_page_stacks_blocks_and_wraps_text() -> None:
    source = '<p>one two three</p><div style="background: green; width: 10px; height: 6px"></div>'
    drawn = draw({"kind": "page", "width": 20, "height": 40, "source": source})
    green = (drawn.pixels_HWC == COLOURS["green"]).all(-1)
    assert green.sum() == 60
    ink = np.flatnonzero((drawn.pixels_HWC == 0).all(-1).any(1))
    assert ink[-1] < np.flatnonzero(green.any(1))[0]
    assert len(set(np.diff(ink))) > 1, "more than one line"


@pytest.mark.parametrize(
    "scene",
    [
        {"kind": "hologram", "width": 4, "height": 4},
        {"kind": "shapes", "width": 0, "height": 4, "items": []},
        {"kind": "shapes", "width": 9, "height": 9, "items": [{"shape": "star", "colour": "red", "x": 0, "y": 0, "size": 4}]},
        {"kind": "text", "width": 9, "height": 9},
        {"kind": "bars", "width": 9, "height": 9, "bars": [], "most": 3},
        {"kind": "svg", "width": 9, "height": 9, "source": "<svg><script/></svg>"},
        {"kind": "svg", "width": 9, "height": 9, "source": '<svg><path d="M1 A 3"/></svg>'},
        {"kind": "svg", "width": 9, "height": 9, "source": '<svg><rect width="nan" height="3"/></svg>'},
        {"kind": "svg", "width": 9, "height": 9, "source": '<!DOCTYPE x [<!ENTITY a "b">]><svg/>'},
        {"kind": "page", "width": 9, "height": 9, "source": "<p>left open"},
        {"kind": "page", "width": 9, "height": 9, "source": '<p onclick="x">a</p>'},
        {"kind": "png", "data": base64.b64encode(b"no picture").decode()},
    ],
    ids=lambda scene: json.dumps(scene)[:40],
)
def test_what_is_no_picture_is_refused(scene: dict) -> None:
    with pytest.raises(UserError):
        draw(scene)


SIDES = st.integers(1, 9)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), height=SIDES, width=SIDES)
def test_files_keep_every_pixel_and_views_agree(data: st.DataObject, height: int, width: int) -> None:
    pixels = np.frombuffer(data.draw(st.binary(min_size=height * width * 3, max_size=height * width * 3)), np.uint8)
    picture = Picture.of(pixels.reshape(height, width, 3))
    assert from_png(to_png(picture)) == picture
    assert draw({"kind": "png", "data": base64.b64encode(to_png(picture)).decode()}) == picture
    whole = (0, 0, width, height)
    assert crop(picture, whole) == picture == zoom(picture, 1)
    assert normalised(whole, picture) == (0, 0, 1, 1)
    left, top = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))
    large = zoom(crop(picture, (left, top, width, height)), 3)
    assert (large.pixels_HWC[::3, ::3] == picture.pixels_HWC[top:, left:]).all()
    assert (large == zoom(picture, 3)) == (left == top == 0)
    assert (blank(picture).height, blank(picture).width) == (height, width)


def test_hash_tells_shapes_apart() -> None:
    assert Picture.of(np.zeros((2, 3, 3), np.uint8)).hash != Picture.of(np.zeros((3, 2, 3), np.uint8)).hash


@pytest.mark.parametrize("box", [(0, 0, 5, 4), (2, 0, 2, 4), (-1, 0, 4, 4), (0, 3, 4, 2)])
def test_a_box_lies_within_its_picture(box: tuple[int, int, int, int]) -> None:
    with pytest.raises(UserError, match="box"):
        crop(Picture.of(np.zeros((4, 4, 3), np.uint8)), box)


def test_messages_give_up_their_pictures() -> None:
    picture = draw({"kind": "bars", "width": 12, "height": 8, "bars": [["red", 1]], "most": 2})
    messages = [{"role": "user", "content": [picture_part(picture), {"type": "text", "text": "?"}]}, {"role": "assistant"}]
    taken, pictures = take_pictures(messages)
    assert taken[0]["content"][0] == {"type": "image", "width": 12, "height": 8, "hash": picture.hash}
    assert (taken[0]["content"][1], taken[1], list(pictures.values())) == (messages[0]["content"][1], messages[1], [picture])


@pytest.mark.parametrize(
    "url", ["https://example.org/a.png", "data:image/png;base64,%%", "data:image/png;base64,aGk=", 3, None]
)
def test_a_picture_is_never_fetched_or_guessed(url: object) -> None:
    with pytest.raises(UserError, match="message 0"):
        take_pictures([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}])


@pytest.mark.parametrize(
    ("scene", "message"),
    [
        ({"kind": "x"}, "no kind of picture 'x'"),
        ({"kind": "svg", "width": 8, "height": 8, "source": "<svg><g/></svg>"}, "<g> is not among"),
        (
            {
                "kind": "shapes",
                "width": 8,
                "height": 8,
                "items": [{"shape": "blob", "colour": "red", "x": 0, "y": 0, "size": 4}],
            },
            "no shape 'blob'",
        ),
    ],
)
def test_a_fault_is_named_once(scene: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=f"^{message}"):
        draw(scene)


def test_too_large_a_file_is_told_so() -> None:
    wide = Picture.of(np.zeros((1, 3585, 3), np.uint8))
    with pytest.raises(UserError, match=r"^a picture has at most 3584"):
        from_png(to_png(wide))

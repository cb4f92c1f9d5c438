"""Pairs of pictures and texts: what the text says is what is drawn, none is a task's, and the mixture holds its share."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from ninefold.chat.tokenizer import Tokenizer
from ninefold.chat.xtml import Xtml
from ninefold.core.seeds import split_of
from ninefold.core.types import Sample
from ninefold.data.corpus import pairs
from ninefold.data.corpus.mixture import CorpusConfig, Mixture
from ninefold.data.corpus.pairs import KINDS, SIDE, Pairs, pair
from ninefold.media.scene import draw
from ninefold.media.shapes import COLOURS
from ninefold.model.presets import preset

PLACES = ("top left", "top right", "bottom left", "bottom right")


def only(kind: str) -> Pairs:
    return Pairs(**{name: float(name == kind) for name in KINDS})


def quarter(pixels: np.ndarray, place: str) -> str:
    """The colour that fills a quarter, `none` where it is empty."""
    half = SIDE // 2
    top, left = half * ("bottom" in place), half * ("right" in place)
    part = {tuple(p) for p in pixels[top : top + half, left : left + half].reshape(-1, 3).tolist()}
    (ink,) = part - {COLOURS["white"]} or {None}
    return "none" if ink is None else next(name for name, value in COLOURS.items() if value == ink)


def test_grids_say_what_they_show() -> None:
    said = 0
    for n in range(60):
        made = pair(only("grid"), n)
        colours = [quarter(made.picture.pixels_HWC, place) for place in PLACES]
        for place, colour in re.findall(r"at ([a-z ]+);(\w+)\.", made.text):
            assert colour == colours[PLACES.index(place)]
            said += 1
        for colour, count in re.findall(r"count (\w+);(\d)\.", made.text):
            assert int(count) == colours.count(colour)
            said += 1
        for listed in re.findall(r"list ([\w,]+)\.", made.text):
            assert listed.split(",") == colours
            said += 1
        for colour, tally in re.findall(r"tally (\w+);([\w=,]+)\.", made.text):
            assert tally == ",".join(f"{c}={colours[: i + 1].count(colour)}" for i, c in enumerate(colours))
            said += 1
    assert said > 60


def test_boxes_are_where_they_are_said_in_both_units() -> None:
    for n in range(20):
        made = pair(only("box"), n)
        pixels, shares = made.text.removeprefix("box ").removesuffix(".\n").split(";")
        ink = (made.picture.pixels_HWC != 255).any(-1)
        rows, columns = np.flatnonzero(ink.any(1)), np.flatnonzero(ink.any(0))
        box = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
        assert [int(edge) for edge in pixels.split()] == box
        assert [float(share) for share in shares.split()] == pytest.approx([edge / SIDE for edge in box], abs=0.006)


@pytest.mark.parametrize("kind", ["icon", "page"])
def test_the_source_draws_the_picture(kind: str) -> None:
    for n in range(10):
        made = pair(only(kind), n)
        source = {"kind": "svg" if kind == "icon" else "page", "width": SIDE, "height": SIDE, "source": made.text.strip()}
        assert draw(source) == made.picture


def test_bars_are_as_high_as_they_are_said() -> None:
    for n in range(20):
        made = pair(only("bars"), n)
        pixels = made.picture.pixels_HWC
        heights = {c: int((pixels == COLOURS[c]).all(-1).any(1).sum()) for c in ("red", "green", "blue", "yellow")}
        for colour, value in re.findall(r"(\w+)=(\d)", made.text):
            assert heights[colour] == SIDE * int(value) / 8
        for colour in re.findall(r"tallest (\w+)", made.text):
            assert heights[colour] == max(heights.values())


def test_pairs_are_fixed_by_name_and_set_aside() -> None:
    seen = [pair(Pairs(), n) for n in range(150)]
    assert seen == [pair(Pairs(), n) for n in range(150)]
    assert {split_of(json.dumps(made.scene, sort_keys=True)) for made in seen} == {"corpus"}
    assert len({made.picture.hash for made in seen}) > 100


def mixture(chat: Xtml | None, tokenizer: Tokenizer) -> Mixture:
    wire = [Sample(ids=np.arange(20, 60, dtype=np.int32), mask=np.ones(40, np.bool_))]
    rates = {"skills": 0.8, "wire": 0.1, "pictures": 0.1}
    return Mixture.of(CorpusConfig(rates=rates), [], wire, tokenizer.encode, chat)  # pyright: ignore[reportArgumentType]


def test_the_mixture_holds_its_share_of_pictures_from_the_first_step() -> None:
    tokenizer = Tokenizer.train(["hello low lower"], pairs.phrases(), 512)
    sight = preset("nano-vision", 512)
    drawn = [s for step in range(8) for s in mixture(Xtml(tokenizer), tokenizer).batch(step, 4096, 128, 0)]
    pictured = [s for s in drawn if s.pictures]
    assert {s.task for s in pictured} == {"pictures"}
    share = sum(len(s.ids) for s in pictured) / sum(len(s.ids) for s in drawn)
    assert share == pytest.approx(0.1, abs=0.03)
    assert all((s.ids == sight.media_placeholder_token_id).sum() == len(s.pictures) for s in drawn)
    assert all(len(s.ids) <= 128 for s in pictured)


def test_a_model_that_reads_none_gets_the_same_texts_as_ever() -> None:
    tokenizer = Tokenizer.train(["hello low lower"], [], 512)
    with_rate = mixture(None, tokenizer)
    without = Mixture.of(
        CorpusConfig(rates={"skills": 0.8, "wire": 0.1}),
        [],
        with_rate.wire,
        tokenizer.encode,
    )
    first, second = with_rate.batch(3, 2000, 128, 1), without.batch(3, 2000, 128, 1)
    assert [s.ids.tolist() for s in first] == [s.ids.tolist() for s in second]
    assert not any(s.pictures for s in first)

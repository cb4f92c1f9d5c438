"""Configuration: dumps that read back, keys that are free, keys that are not."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninefold.core.config import Config, configured, parse_value, to_toml
from ninefold.core.errors import UserError

Room = Literal["kitchen", "cellar"]


class Lamp(Config):
    """A lamp."""

    watts: float = 5.0
    label: str = ""


class House(Config):
    """Every kind of field that a configuration has."""

    storeys: int = 1
    name: str = "none"
    open: bool = False
    lamp: Lamp = Lamp()
    rates: dict[str, float] = {"heat": 0.5}
    shelves: dict[Room, dict[str, tuple[int, ...]]] = {"kitchen": {"spice": (0, 1)}}
    lamps: dict[str, Lamp] = {"door": Lamp()}
    guests: tuple[Lamp, ...] = ()
    size: tuple[int, int] = (3, 4)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
REALS = st.floats(allow_nan=False, allow_infinity=False)
LAMPS = st.builds(Lamp, watts=REALS, label=TEXT)
HOUSES = st.builds(
    House,
    storeys=st.integers(-(2**62), 2**62),
    name=TEXT,
    open=st.booleans(),
    lamp=LAMPS,
    rates=st.dictionaries(TEXT, REALS, max_size=3),
    shelves=st.dictionaries(
        st.sampled_from(["kitchen", "cellar"]),
        st.dictionaries(TEXT, st.lists(st.integers(0, 9), max_size=3).map(tuple), max_size=2),
        max_size=2,
    ),
    lamps=st.dictionaries(TEXT, LAMPS, max_size=2),
    guests=st.lists(LAMPS, max_size=2).map(tuple),
)
EMPTY = House(rates={}, shelves={}, lamps={})


@given(HOUSES)
def test_a_dump_reads_back(house: House) -> None:
    assert House.model_validate(tomllib.loads(to_toml(house))) == house


@given(HOUSES, HOUSES)
def test_a_file_overrides_what_it_states_and_adds_free_keys(
    tmp_path_factory: pytest.TempPathFactory, a: House, b: House
) -> None:
    path = tmp_path_factory.mktemp("config") / "b.toml"
    path.write_text(to_toml(b))
    assert configured(EMPTY, file=path) == b
    both = configured(a, file=path)
    assert both.rates == a.rates | b.rates
    assert both.lamps == a.lamps | b.lamps
    assert both.shelves.keys() == a.shelves.keys() | b.shelves.keys()
    assert (both.name, both.storeys, both.lamp, both.guests) == (b.name, b.storeys, b.lamp, b.guests)


@given(st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,8}", fullmatch=True), REALS)
def test_an_override_adds_a_free_key(name: str, value: float) -> None:
    house = configured(House(), overrides=[f"rates.{name}={value}", f"lamps.{name}.watts={value}", f"lamps.{name}.label=x"])
    assert house.rates == {"heat": 0.5} | {name: value}
    assert house.lamps == {"door": Lamp()} | {name: Lamp(watts=value, label="x")}


def test_later_values_win(tmp_path: Path) -> None:
    path = tmp_path / "house.toml"
    path.write_text('name = "file"\nstoreys = 2\n[shelves.cellar]\nwine = [3]\n')
    house = configured(House(), file=path, overrides=["storeys=3", "storeys = 4", "shelves.cellar.wine=[5]"])
    assert (house.name, house.storeys) == ("file", 4)
    assert house.shelves == {"kitchen": {"spice": (0, 1)}, "cellar": {"wine": (5,)}}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("storey=2", "unknown key 'storey'; here one may set guests, lamp, lamps, name, open, rates, shelves, size, storeys"),
        ("lamp.volts=2", "unknown key 'lamp.volts'; here one may set label, watts"),
        ("lamps.door.volts=2", "unknown key 'lamps.door.volts'; here one may set label, watts"),
        ("lamps.hall.volts=2", "lamps.hall.volts: is no key here (got 2)"),
        ("shelves.attic.box=[1]", "shelves.attic: there is no such key; there are 'kitchen' or 'cellar' (got 'attic')"),
        ("shelves.cellar.box=many", "shelves.cellar.box: takes a list: [A, B] (got 'many')"),
        ("shelves.cellar.box=[1.5]", "shelves.cellar.box.0: takes a whole number (got 1.5)"),
        ("shelves.cellar=[]", "shelves.cellar: takes keys of its own: shelves.cellar.KEY=VALUE (got [])"),
        ("rates.heat=warm", "rates.heat: takes a number (got 'warm')"),
        ("lamp=3", "lamp: takes keys of its own: lamp.KEY=VALUE (got 3)"),
        ("storeys=[]", "storeys: takes a whole number (got [])"),
        ("open=ajar", "open: takes true or false (got 'ajar')"),
        ("name=[]", "name: takes a text (got [])"),
        ("size=[1]", "size: takes more values (got [1])"),
        ("size=[1, 2, 3]", "size: takes a list of 2 or fewer (got [1, 2, 3])"),
        ("=3", "--set =3: a part of the key is empty"),
        ("rates..x=3", "--set rates..x=3: a part of the key is empty"),
        ("storeys", "KEY=VALUE"),
    ],
)
def test_faults_name_the_key_and_what_may_stand_there(override: str, message: str) -> None:
    with pytest.raises(UserError) as raised:
        configured(House(), overrides=[override])
    assert message in str(raised.value)


@pytest.mark.parametrize(("text", "message"), [("storeys = ", "not valid TOML"), ("lift = 1", "unknown key 'lift'")])
def test_faults_of_a_file_name_it(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "house.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=message) as raised:
        configured(House(), file=path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    ("text", "value"), [("3", 3), ("0.5", 0.5), ("true", True), ("[1, 2]", [1, 2]), ("nano", "nano"), (' "a b" ', "a b")]
)
def test_values_are_toml_or_else_text(text: str, value: Any) -> None:
    assert parse_value(text) == value

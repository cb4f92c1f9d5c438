"""The event log: what is written comes back, torn lines cost nothing else, secrets never reach the disk."""

from __future__ import annotations

import json
import os
import string
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninefold.core.events import EventLog, read_events, redact
from ninefold.core.store import Run

HARMLESS = st.text(string.ascii_lowercase + " \n\"'{}é—", max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | HARMLESS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HARMLESS.map(lambda key: key + "_"), inner, max_size=3),
    max_leaves=8,
)
KEY = st.text(string.ascii_letters + string.digits, min_size=20, max_size=40)
SECRETS = st.one_of(
    *(KEY.map(lambda k, p=prefix: p + k) for prefix in ("sk-", "hf_", "ghp_", "Bearer ")),
    st.text(string.ascii_uppercase + string.digits, min_size=16, max_size=16).map(lambda k: "AKIA" + k),
)
SECRET_NAMES = st.sampled_from(["api_key", "apikey", "API-KEY", "token", "hf_token", "secret", "password", "Authorization"])


def events(path: Path, offset: int = 0) -> list[dict[str, Any]]:
    return [event for _, event in read_events(path, offset=offset)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("events")


@given(JSON)
def test_what_holds_no_secret_is_kept_as_it_is(value: Any) -> None:
    assert redact(value) == value


@given(SECRETS, HARMLESS, HARMLESS)
def test_keys_are_found_inside_texts(secret: str, before: str, after: str) -> None:
    hidden = redact([{"note": f"{before} {secret} {after}"}])[0]["note"]
    assert hidden == f"{before} [redacted] {after}"


@given(SECRET_NAMES, st.text(min_size=1))
def test_texts_under_a_secrets_name_go_whatever_they_look_like(name: str, text: str) -> None:
    assert redact({"server": {name: text, "many": [1]}}) == {"server": {name: "[redacted]", "many": [1]}}
    assert redact({name: [text, 3, None, ""]}) == {name: ["[redacted]", 3, None, ""]}


@given(st.lists(JSON, min_size=1, max_size=6), st.floats(0, 1), st.booleans())
def test_any_cut_loses_the_torn_line_alone(folder: Path, values: list[Any], share: float, at_end: bool) -> None:
    """The log is cut anywhere, as by a kill, and the run taken up again: what was whole and what came later is all there."""
    run = Run(path=folder / "cut")
    path = run.events
    path.unlink(missing_ok=True)
    for value in values:
        run.log(stage="s")("value", value=value)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    cut = sum(map(len, lines[: int(share * len(lines))])) - 1 if at_end else int(share * len(whole))
    cut = max(0, cut)
    path.write_bytes(whole[:cut])
    kept = whole[:cut].count(b"\n")
    assert [event["value"] for event in events(path)] == values[:kept]
    with run.locked():
        run.log()("later", value="after")
    kept += cut > 0 and whole[cut : cut + 1] == b"\n"
    assert [event["value"] for event in events(path)] == [*values[:kept], "after"]


@given(st.lists(JSON, min_size=1, max_size=6), st.integers(0, 6))
def test_reading_goes_on_from_any_offset_it_gave(folder: Path, values: list[Any], n: int) -> None:
    path = folder / "offset.jsonl"
    path.unlink(missing_ok=True)
    for value in values:
        EventLog(path)("value", value=value)
    offsets = [0, *(offset for offset, _ in read_events(path))]
    n = min(n, len(values))
    assert [event["value"] for event in events(path, offsets[n])] == values[n:]


def test_context_and_numbers_of_numpy(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "events.jsonl"
    assert events(path) == []
    EventLog(path, stage="rl").bind(cell="coding/low")("step", loss=np.float32(0.5), counts=np.arange(3), path=tmp_path)
    (event,) = events(path)
    assert event["pid"] == os.getpid()
    assert {k: event[k] for k in ("kind", "stage", "cell", "loss", "counts", "path")} == {
        "kind": "step", "stage": "rl", "cell": "coding/low", "loss": 0.5, "counts": [0, 1, 2], "path": str(tmp_path),
    }  # fmt: skip


def write_many(path: Path, writer: int) -> None:
    for n in range(200):
        EventLog(path, writer=writer)("value", n=n, filler="x" * (n * 37 % 900))


def test_writers_never_interleave(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    writers = [get_context("fork").Process(target=write_many, args=(path, i)) for i in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    read = events(path)
    assert len(path.read_text().splitlines()) == len(read) == 600
    for i in range(3):
        assert [event["n"] for event in read if event["writer"] == i] == list(range(200))


def test_lines_are_json_on_their_own(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    EventLog(path)("note", text="two\nlines\u2028and more")
    (line,) = path.read_bytes().split(b"\n")[:-1]
    assert json.loads(line)["text"] == "two\nlines\u2028and more"

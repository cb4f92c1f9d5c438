"""`graph` and `synth`, as a user calls them."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from ninefold.app.cli import app

SMALL = (
    "sources.packages=['mpmath']",
    "sources.glosses=false",
    "sources.pages=false",
    "fields.mathematics.seeds=['mpmath', 'matrix', 'function']",
    "nodes=20",
)


def call(*arguments: str):
    return CliRunner().invoke(app, arguments)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("graphs") / "small")
    grown = call("graph", "grow", folder, "--json", *(word for setting in SMALL for word in ("--set", setting)))
    assert grown.exit_code == 0, grown.output
    return folder


def test_grows_and_goes_on_with_its_own_configuration(folder):
    before = json.loads(call("graph", "stats", folder, "--json").stdout)
    assert before["nodes"] >= 20
    assert before["orphans"] == 0
    after = json.loads(call("graph", "grow", folder, "--json", "--set", f"nodes={before['nodes'] + 1}").stdout)
    assert after["nodes"] > before["nodes"]
    assert set(after["domain"]) == set(before["domain"])


def test_shows_a_concept(folder):
    shown = json.loads(call("graph", "show", folder, "mpmath", "--json").stdout)
    assert shown["coarser"] == ["mathematics"]
    finer = json.loads(call("graph", "show", folder, shown["finer"][0], "--json").stdout)
    assert "mpmath" in finer["coarser"]
    assert finer["evidence"][0].startswith("doc://mpmath/")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("graph", "show", "{}", "unheard of"), "no concept"),
        (("graph", "stats", "nowhere"), "there is no graph"),
        (("graph", "grow", "{}", "--set", "sources.glosses=true", "--set", "nods=3"), "unknown key"),
        (("synth", "{}", "--set", "tasks=many"), "tasks"),
    ],
)
def test_says_what_is_wrong(folder, arguments, message):
    ended = call(*(argument.format(folder) for argument in arguments))
    assert ended.exit_code == 2
    assert message in ended.stderr


def test_nothing_refused_yet(folder):
    assert json.loads(call("synth", folder, "--rejected", "--json").stdout) == []

"""Families from outside the package: found by path or entry point, played in a run, judged in a fresh process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ninefold.agent.env import families, family
from ninefold.agent.env.check import Case, check, judge_agrees
from ninefold.agent.env.load import GROUP
from ninefold.agent.env.scaffold import scaffold
from ninefold.core.errors import UserError
from ninefold.core.store import Run
from ninefold.recipes.kit import Kit
from tests.recipes.small import small

ALONE = """
from ninefold.agent.env.arithmetic import Arithmetic
class Sums(Arithmetic):
    name = "{name}"
    domain = "{domain}"
FAMILY = Sums()
"""


def test_a_new_family_keeps_every_promise_and_goes_by_its_own_name(tmp_path: Path) -> None:
    files = scaffold("crates", tmp_path)
    assert {path.name for path in files} >= {"__init__.py", "test_crates.py", "world.py"}
    assert not any("example" in path.read_text().lower() for path in files)
    found = family(str(tmp_path / "crates"))
    assert family("crates") is found
    assert [finding for finding in check(found, seeds=2) if finding.faults] == []


def test_a_file_is_a_family_too_and_the_judge_finds_it(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(ALONE.format(name="sums_of_mine", domain="general"))
    found = family(str(tmp_path / "sums.py"))
    assert found.generate("train", 0, 3).id == "sums_of_mine/train/0/3"
    assert list(judge_agrees(Case(family=found, level=0, seeds=1))) == []


def test_a_run_names_it(tmp_path: Path) -> None:
    path = tmp_path / "more.py"
    path.write_text(ALONE.format(name="more_sums", domain="agents"))
    recipe = small().model_copy(update={"families": {"agents": {str(path): (1,)}}})
    kit = Kit(recipe=recipe, run=Run(path=tmp_path / "run"))
    assert [family.name for family in kit.trained] == ["more_sums"]
    assert {task.family for task in kit.tasks("agents", "train", 3)} == {"more_sums"}
    general = Kit(recipe=recipe.model_copy(update={"families": {"general": {str(path): (0,)}}}), run=kit.run)
    with pytest.raises(UserError, match="of domain agents"):
        _ = general.families


def test_an_installed_package_names_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "installed_sums.py").write_text(ALONE.format(name="installed_sums", domain="general"))
    info = tmp_path / "sums-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sums\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\ninstalled_sums = installed_sums:FAMILY\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert "installed_sums" in families()
    assert family("installed_sums").levels == family("arithmetic").levels


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("FAMILY = 3", "it lacks name, domain, levels"),
        ("x = 1", "defines no FAMILY"),
        ("import nothing_of_that_name", "cannot be imported: ModuleNotFoundError"),
        (ALONE.format(name="Two Words", domain="general"), "small letters"),
        (ALONE.format(name="fine", domain="cooking"), "domain is one of general"),
        (ALONE.format(name="search", domain="general"), "is called search, and so is ninefold's own"),
    ],
)
def test_what_is_no_family_is_told(tmp_path: Path, source: str, message: str) -> None:
    (tmp_path / "bad.py").write_text(source)
    with pytest.raises(UserError, match=message):
        family(str(tmp_path / "bad.py"))


def test_two_families_of_one_name_are_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "twin.py").write_text(ALONE.format(name="twin_sums", domain="general"))
    family(str(tmp_path / "a" / "twin.py"))
    with pytest.raises(UserError, match="give it another name"):
        family(str(tmp_path / "b" / "twin.py"))
    with pytest.raises(UserError, match="no family: give a Python file"):
        family(str(tmp_path / "a"))

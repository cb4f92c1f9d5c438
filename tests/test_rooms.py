"""The README's map of rooms, the folders and the import contract say the same."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def levels_of_readme() -> dict[str, int]:
    rows = re.findall(r"^\| (\d) \| `(\w+)` \|", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    return {room: int(level) for level, room in rows}


def levels_of_contract() -> dict[str, int]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    return {room: level for level, names in enumerate(reversed(layers)) for room in re.findall(r"\w+", names)}


def test_the_map_holds_every_room() -> None:
    folders = {path.parent.name for path in (ROOT / "ninefold").glob("*/__init__.py")}
    assert levels_of_readme().keys() == folders


def test_the_map_has_the_levels_of_the_contract() -> None:
    assert levels_of_readme() == levels_of_contract()

"""A new family: a copy of `ninefold.agent.env.example` under another name."""

from __future__ import annotations

import re
from pathlib import Path

import ninefold.agent.env.example as example
from ninefold.agent.env import families
from ninefold.core.errors import UserError


def scaffold(name: str, parent: Path) -> list[Path]:
    """Write the folder `parent/name`, a family that works as it is, and return its files. Raises UserError."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise UserError(f"a family's name is small letters, digits and _, got {name!r}")
    if name in families():
        raise UserError(f"there is a family {name} already (`ninefold task ls`): choose another name")
    folder = parent / name
    if folder.exists():
        raise UserError(f"{folder} exists already: choose another name, or remove it")
    folder.mkdir(parents=True)
    title = "".join(part.capitalize() for part in name.split("_"))
    written: list[Path] = []
    for source in sorted(Path(example.__path__[0]).glob("*.py")):
        path = folder / source.name.replace("example", name)
        path.write_text(source.read_text().replace("example", name).replace("Example", title))
        written.append(path)
    return written

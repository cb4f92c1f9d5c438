"""Families from outside the package: a file or folder of Python given by path, or what an installed package names."""

from __future__ import annotations

import re
import sys
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from ninefold.core.errors import UserError, boundary
from ninefold.core.protocols import Family
from ninefold.core.types import DOMAINS

GROUP = "ninefold.families"
"""Entry points: family → the object `FAMILY` of an installed package."""
SYMBOL = "FAMILY"
"""What a file or a folder's `__init__.py` defines."""

_MEMBERS = tuple(name for name in vars(Family) if not name.startswith("_"))


def installed() -> dict[str, EntryPoint]:
    """Families of installed packages by name."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def load_entry(entry: EntryPoint) -> Family:
    """The family of an installed package. Raises UserError where it cannot be imported or is none."""
    with boundary(UserError, f"family {entry.name} of an installed package ({entry.value})"):
        found = entry.load()
    return checked(found, entry.value)


def load_path(path: Path) -> Family:
    """The `FAMILY` of a Python file, or of a folder's `__init__.py`, which may import its neighbours relatively.

    Raises UserError where it cannot be imported or is none.
    """
    source = path / "__init__.py" if path.is_dir() else path
    if not source.is_file() or source.suffix != ".py":
        raise UserError(f"{path} is no family: give a Python file, or a folder with an __init__.py, that defines {SYMBOL}")
    with boundary(UserError, f"{source} cannot be imported"):
        module = _imported(source, package=path.is_dir())
    if not hasattr(module, SYMBOL):
        raise UserError(f"{source} defines no {SYMBOL}; end it with e.g. {SYMBOL} = Shelf()")
    return checked(getattr(module, SYMBOL), str(source))


def _imported(source: Path, *, package: bool) -> ModuleType:
    """The module, under a name that its place gives it, so that no other module is shadowed."""
    name = "family" + re.sub(r"\W", "_", str(source.resolve()))
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, source, submodule_search_locations=[str(source.parent)] if package else None)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def checked(found: object, where: str) -> Family:
    """`found` as a family. Raises UserError naming what it lacks."""
    if lacking := [name for name in _MEMBERS if not hasattr(found, name)]:
        raise UserError(f"{where}: not a family, it lacks {', '.join(lacking)} (see core.protocols.Family)")
    family: Family = found  # pyright: ignore[reportAssignmentType]
    if not re.fullmatch(r"[a-z][a-z0-9_]*", family.name):
        raise UserError(f"{where}: a family's name is small letters, digits and _, got {family.name!r}")
    if family.domain not in DOMAINS:
        raise UserError(f"{where}: domain is one of {', '.join(DOMAINS)}, got {family.domain!r}")
    if family.levels < 1:
        raise UserError(f"{where}: a family has at least one level, got {family.levels}")
    return family

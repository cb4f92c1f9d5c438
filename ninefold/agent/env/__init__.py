"""Families of tasks: each a generator, a world, a verifier, and the scripted policies that prove it sound."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from ninefold.agent.env.load import installed, load_entry, load_path
from ninefold.core.errors import UserError
from ninefold.core.protocols import Family

_FAMILIES: dict[str, str] = {
    "arithmetic": "ninefold.agent.env.arithmetic:Arithmetic",
    "passage": "ninefold.agent.env.passage:Passage",
    "search": "ninefold.agent.env.search:Search",
    "gym": "ninefold.agent.env.gym:Gym",
    "chain_sum": "ninefold.agent.env.gym:ChainSum",
    "picture": "ninefold.agent.env.picture:Picture",
    "assistant": "ninefold.agent.env.assistant:Assistant",
    "tally": "ninefold.agent.env.tally:Tally",
    "office": "ninefold.agent.env.office:Office",
    "research": "ninefold.agent.env.research:Research",
    "professional": "ninefold.agent.env.professional:Professional",
    "expression": "ninefold.agent.env.expression:Expression",
    "repair": "ninefold.agent.env.repair:Repair",
    "visual": "ninefold.agent.env.visual:Visual",
    "web": "ninefold.agent.env.web:Web",
    "kernels": "ninefold.agent.env.kernels:Kernels",
    "aet": "ninefold.agent.env.aet:Aet",
    "software": "ninefold.agent.env.software:Software",
}

_IMPORTED: dict[str, str] = {
    "harbor": "ninefold.agent.env.harbor:Harbor",
    "kernelbench": "ninefold.agent.env.kernelbench:KernelBench",
    "mcp": "ninefold.agent.env.mcp:Mcp",
    "tau2": "ninefold.agent.env.tau2:Tau2",
    "verifiers": "ninefold.agent.env.verifiers:Verifiers",
}
"""Families of tasks that come from elsewhere: they generate none, and no list of families names them."""

_found: dict[str, Family] = {}
"""Families in use, by their own names."""
_places: dict[str, Path] = {}
"""Where those lie that were found by path."""


def family(name: str) -> Family:
    """A family by name: built in, of an installed package (entry point group `ninefold.families`), or already found by path;
    else `name` is the path of a file or folder that defines FAMILY, and the family is known by its own name from then on.

    Raises UserError where there is none, or where another family has its name.
    """
    if name in _found:
        return _found[name]
    if name in (ours := _FAMILIES | _IMPORTED):
        module, _, symbol = ours[name].partition(":")
        _found[name] = getattr(import_module(module), symbol)()
    elif name in (entries := installed()):
        _found[name] = load_entry(entries[name])
    elif Path(name).exists():
        return _at(Path(name).resolve())
    else:
        known = ", ".join([*_FAMILIES, *entries])
        raise UserError(f"no task family {name!r}, nor a file or folder there; there are {known}")
    return _found[name]


def _at(path: Path) -> Family:
    found = load_path(path)
    if found.name in _FAMILIES or _places.get(found.name, path) != path:
        other = _places.get(found.name, "ninefold's own")
        raise UserError(f"the family of {path} is called {found.name}, and so is {other}: give it another name")
    _places[found.name] = path
    return _found.setdefault(found.name, found)


def place_of(name: str) -> str:
    """What another process, which may know less, gives to `family` for the family of that name."""
    return str(_places.get(name, name))


def families() -> dict[str, Family]:
    """Every family by name, in the order of reports: built in, then of installed packages."""
    return {name: family(name) for name in [*_FAMILIES, *installed()]}

"""Families of tasks: each a generator, a world, a verifier, and the scripted policies that prove it sound."""

from __future__ import annotations

from functools import cache
from importlib import import_module

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
    "research": "ninefold.agent.env.research:Research",
    "expression": "ninefold.agent.env.expression:Expression",
    "repair": "ninefold.agent.env.repair:Repair",
}


_IMPORTED: dict[str, str] = {"harbor": "ninefold.agent.env.harbor:Harbor"}
"""Families of tasks that come from elsewhere: they generate none, and no list of families names them."""


@cache
def family(name: str) -> Family:
    """The family of that name; its module is imported at first use."""
    if name not in _FAMILIES | _IMPORTED:
        raise UserError(f"no task family {name!r}; there are {', '.join(_FAMILIES)}")
    module, _, symbol = (_FAMILIES | _IMPORTED)[name].partition(":")
    return getattr(import_module(module), symbol)()


def families() -> dict[str, Family]:
    """Every family by name, in the order of reports."""
    return {name: family(name) for name in _FAMILIES}

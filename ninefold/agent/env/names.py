"""Words that tasks are made of; each is one token of the nano tokenizer."""

from __future__ import annotations

NAMES: tuple[str, ...] = tuple("Ann Bob Cat Dan Eve Fay Gus Hal Ida Jon Kim Leo Mia Ned Pia Ray".split())  # noqa: SIM905
"""People."""

GOODS: tuple[str, ...] = tuple("tea jam ham pie rice soup milk corn lamp coat ring bike drum kite desk boat".split())  # noqa: SIM905
"""Things one can want, send or own."""

PLACES: tuple[str, ...] = ("Rome", "Oslo", "Lima", "Bern", "Cairo", "Paris", "Delhi", "Tunis")
"""Where one can be."""

"""The trades by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from ninefold.agent.env.professional import analysis, figures, finance, legal

TRADES = ("analysis", "finance", "legal")
"""Those of levels 1 to 4."""
KINDS: Mapping[str, ModuleType] = {"figures": figures, "analysis": analysis, "finance": finance, "legal": legal}
"""Modules with `draw` and `solve` (`case.Kind`)."""

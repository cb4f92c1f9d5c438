"""Pages of records, and which of their entries are wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A file, or what the oracle shows at once."""

    name: str
    text: str
    ids: tuple[str, ...]
    """Of its entries, in order; no two pages share one."""
    wrong: tuple[str, ...]
    """Those that break the rules, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """What is audited."""

    rules: str
    """What every entry has to keep, as the auditor is told it."""
    pages: tuple[Page, ...]
    beside: Mapping[str, str] = field(default_factory=dict[str, str])
    """Files that the rules speak of and that hold no entries: path → text."""

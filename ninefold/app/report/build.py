"""Writes a run's report."""

from __future__ import annotations

from ninefold.core.store import Run


def write_report(run: Run) -> None:
    """Write report.html."""

"""Charts as data: what Plotly draws, without its Python half."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ninefold.app.journal import Event
from ninefold.core.types import EFFORTS

COLOURS = {"general": "#2a78c8", "agents": "#d9822b", "coding": "#2f9e68"}
DASHES = {"low": "dot", "high": "dash", "max": "solid"}
SYMBOLS = ("circle-open", "diamond-open", "square-open")
"""Of low, high and max."""
PALETTE = ("#2a78c8", "#d9822b", "#2f9e68", "#a25ac4", "#c8442a", "#6b7785", "#b8960c", "#17a2b8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One plot of the report."""

    title: str
    x: str
    """Title of the horizontal axis."""
    traces: tuple[dict[str, Any], ...]
    """Plotly's, as JSON."""
    y: dict[str, Any] | None = None
    """Settings of the vertical axis, Plotly's, where they differ from the usual ones."""

    def record(self) -> dict[str, Any]:
        """JSON that the page draws."""
        layout: dict[str, Any] = {
            "title": {"text": self.title, "font": {"size": 14}, "x": 0, "xref": "paper"},
            "xaxis": {"title": {"text": self.x}},
            "yaxis": self.y or {},
            "barmode": "group",
        }
        return {"data": list(self.traces), "layout": layout}


def line(events: Sequence[Event], field: str, name: str, **style: Any) -> dict[str, Any]:
    """`field` over the step; events that lack it are left out."""
    known = [event for event in events if event.get(field) is not None]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [event["step"] for event in known],
        "y": [shorten(event[field]) for event in known],
        "line": {"width": 1.6, **style},
    }


def cell_line(events: Sequence[Event], field: str, cell: str) -> dict[str, Any]:
    """The same for a cell: a colour per domain, a dash per effort."""
    domain, effort = cell.split("/")
    return line(events, field, cell, color=COLOURS[domain], dash=DASHES[effort])


def curve(points: Sequence[tuple[float, float, float]], name: str, colour: str) -> dict[str, Any]:
    """Efforts as points: (tokens, score, standard error) of each, smallest effort first."""
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": [shorten(x) for x, _, _ in points],
        "y": [shorten(y) for _, y, _ in points],
        "error_y": {"type": "data", "array": [shorten(e) for _, _, e in points], "thickness": 1, "width": 3},
        "text": list(EFFORTS[: len(points)]),
        "marker": {"symbol": list(SYMBOLS[: len(points)]), "size": 9},
        "line": {"color": colour},
    }


def bars(names: Sequence[str], values: Sequence[float], name: str, colour: str) -> dict[str, Any]:
    """One bar for each of `names`."""
    return {
        "type": "bar",
        "name": name,
        "x": list(names),
        "y": [shorten(value) for value in values],
        "marker": {"color": colour},
    }


def shorten(value: float) -> float | None:
    """Five significant digits, so that the page stays small; None, a gap, for what is not finite."""
    return float(f"{value:.5g}") if math.isfinite(value) else None

"""A part of the report: text, charts, or what is missing for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from ninefold.app.report.chart import Chart


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One heading of the report and what stands below it."""

    title: str
    text: str = ""
    """What is to be seen, in a sentence or two."""
    body: str = ""
    """HTML."""
    charts: tuple[Chart, ...] = ()
    missing: str = ""
    """What has to happen before there is anything to show; empty where there is."""

    @property
    def anchor(self) -> str:
        return "-".join(self.title.lower().split())


def section(title: str, text: str, *, charts: Sequence[Chart] = (), body: str = "", until: str) -> Section:
    """A section that shows what it has: charts without a trace are left out, and `until` says what an empty one waits for."""
    drawn = tuple(chart for chart in charts if any(trace["x"] for trace in chart.traces))
    return Section(title=title, text=text, body=body, charts=drawn, missing="" if drawn or body else until)


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers_from: int = 1) -> str:
    """An HTML table; columns from `numbers_from` on are aligned to the right. Cells are HTML already, the head is text."""
    classes = ["" if i < numbers_from else ' class="n"' for i in range(len(head))]
    top = "".join(f"<th{c}>{escape(text)}</th>" for c, text in zip(classes, head))
    lines = ["<tr>" + "".join(f"<td{c}>{cell}</td>" for c, cell in zip(classes, row)) + "</tr>" for row in rows]
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'

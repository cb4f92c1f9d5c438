"""The HTML page around the sections; nothing in it is loaded from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs

from ninefold.app.report.section import Section

HERE = Path(__file__).parent


def charts_of(sections: Sequence[Section]) -> dict[str, Any]:
    """Element id → chart, as the page's script takes them."""
    return {_id(section, i): chart.record() for section in sections for i, chart in enumerate(section.charts)}


def body_of(sections: Sequence[Section]) -> str:
    """Everything below the page's title."""
    return "".join(_html(section) for section in sections)


def page(title: str, subtitle: str, sections: Sequence[Section]) -> str:
    """A page that stands alone."""
    data = json.dumps(charts_of(sections), separators=(",", ":")).replace("</", "<\\/")
    script = (
        f"{_file('page.js')}\nconst charts = {data};\ndraw(charts);\nmatching.addEventListener('change', () => draw(charts));"
    )
    return _frame(title, subtitle, sections, body_of(sections), f"<script>{get_plotlyjs()}</script><script>{script}</script>")


def live_page(title: str, subtitle: str, sections: Sequence[Section], *, seconds: float) -> str:
    """A page that asks its server for `content` every few seconds and draws what changed."""
    script = f"{_file('page.js')}\nfollow({seconds});"
    return _frame(title, subtitle, sections, "", f'<script src="plotly.js"></script><script>{script}</script>')


def _frame(title: str, subtitle: str, sections: Sequence[Section], body: str, scripts: str) -> str:
    links = "".join(f'<a href="#{section.anchor}">{escape(section.title)}</a>' for section in sections)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{_file('style.css')}</style></head><body>"
        f"<header><h1>{escape(title)}</h1><small>{escape(subtitle)}</small><nav>{links}</nav></header>"
        f"<main>{body}</main>{scripts}</body></html>"
    )


def _html(section: Section) -> str:
    charts = "".join(f'<div class="chart" id="{_id(section, i)}"></div>' for i in range(len(section.charts)))
    parts = [
        f'<h2 id="{section.anchor}">{escape(section.title)}</h2>',
        f"<p>{escape(section.text)}</p>" if section.text else "",
        section.body,
        f'<div class="charts">{charts}</div>' if charts else "",
        f'<div class="missing">{escape(section.missing)}</div>' if section.missing else "",
    ]
    return "".join(parts)


def _id(section: Section, number: int) -> str:
    return f"chart-{section.anchor}-{number}"


def _file(name: str) -> str:
    return (HERE / name).read_text()

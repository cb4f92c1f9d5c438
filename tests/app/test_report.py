"""The report: complete, self-contained, safe; and what it does with a run that has only begun."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from plotly.offline import get_plotlyjs
from starlette.testclient import TestClient

from ninefold.app.journal import Journal
from ninefold.app.report.build import sections_of, write_report
from ninefold.app.watch import create_app
from ninefold.core.events import EventLog
from ninefold.core.store import Run

from .recorded import EVIL, WITHIN, begin, table

VOID = {"meta", "link", "br"}


class Outline(HTMLParser):
    """Tags that balance, ids, and every address that would be loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if given.get("id"):
            self.ids.append(str(given["id"]))
        address = given.get("src") or given.get("href")
        if address:
            (self.links if tag == "a" else self.loaded).append(address)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def outline(text: str) -> Outline:
    parsed = Outline()
    parsed.feed(text)
    parsed.close()
    return parsed


def test_report_of_a_whole_run(run: Run) -> None:
    write_report(run)
    text = run.report.read_text()
    assert run.report.stat().st_size < 8e6
    own = text.replace(get_plotlyjs(), "")
    assert len(own) < len(text) - 1e6
    page = outline(own)
    assert page.open == []
    assert page.loaded == ["data:,"]
    assert not re.search(r"https?://|@import|url\(", own)
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert "missing" not in re.sub(r"<style>.*?</style>", "", own, flags=re.S).split("<script>")[0]
    charts = json.loads(re.search(r"const charts = (.*);\ndraw", own)[1].replace("<\\/", "</"))  # type: ignore[index]
    assert set(charts) == {i for i in page.ids if i.startswith("chart-")}
    assert all(trace["x"] for chart in charts.values() for trace in chart["data"] if trace.get("name") == "student")


def test_markup_in_texts_stays_text(run: Run) -> None:
    write_report(run)
    own = run.report.read_text().replace(get_plotlyjs(), "")
    assert EVIL not in own
    assert own.count("<script>") == 2
    assert EVIL in "".join(outline(own).text)


def test_figures_of_the_report(run: Run) -> None:
    sections = {section.title: section for section in sections_of(run, Journal.of(run))}
    recovered = (WITHIN["student"] - WITHIN["sft"]) / (WITHIN["experts"] - WITHIN["sft"])
    assert f"{recovered:.0%}" in sections["Results"].body
    assert sections["Results"].body.count("0.40") == 9 + 1
    effort = sections["Effort"].charts[0].traces
    assert [(trace["x"], trace["y"]) for trace in effort if trace["name"] == "student"] == [([20.0, 40.0, 80.0], [0.67] * 3)]
    loss = sections["Losses"].charts[0].traces[0]
    assert loss["x"] == [1, 2, 3, 4, 5, 6]
    assert "<b>900</b>" in sections["Cost"].body
    assert "agents/low" in sections["Notes"].body
    acceptance = sections["Draft model"].charts[0].traces[0]
    assert acceptance["x"] == ["1.", "2.", "3.", "4.", "5.", "6.", "7."]
    assert sections["Trajectories"].body.count("version 7") == 2


@pytest.mark.parametrize("lines", range(0, 60, 4))
def test_every_beginning_of_a_run_has_a_report(run: Run, here: Path, lines: int) -> None:
    part = begin(here / "runs" / f"part{lines}")
    part.events.write_text("".join(run.events.read_text().splitlines(keepends=True)[:lines]))
    write_report(part)
    page = outline(part.report.read_text().replace(get_plotlyjs(), ""))
    assert page.open == []
    assert "not evaluated yet" in "".join(page.text)


def test_a_domain_that_was_left_out_is_named(run: Run) -> None:
    part = {model: {cell: f for cell, f in cells.items() if not cell.startswith("coding")} for model, cells in table().items()}
    run.log(stage="evaluate")("table", table=part)
    assert sections_of(run, Journal.of(run))[0].body.count("left out") == 3


def test_families_and_cells_that_fell_back_are_named(run: Run) -> None:
    assert "fell back to the SFT model: agents/low<" in sections_of(run, Journal.of(run))[0].body
    families = {
        model: {cell: {"mail": f, "no<tes": {**f, "within": 0.123}} for cell, f in cells.items() if cell.startswith("agents")}
        for model, cells in table().items()
    }
    run.log(stage="evaluate")("table", table=table(), families=families, fell_back=["agents/max"])
    body = sections_of(run, Journal.of(run))[0].body
    assert body.count("0.12<") == 9
    assert body.index("mail") < body.index("no&lt;tes")
    assert "fell back to the SFT model: agents/max<" in body


def test_watching_shows_what_is_new(here: Path, run: Run) -> None:
    part = begin(here / "runs" / "live")
    with TestClient(create_app(part)) as client:
        assert outline(client.get("/").text).loaded == ["data:,", "plotly.js"]
        first = client.get("/content").json()
        assert client.get("/content", params={"version": first["version"]}).status_code == 204
        EventLog(part.events, stage="pretrain")("step", step=1, total=2, loss=3.0)
        second = client.get("/content", params={"version": first["version"]}).json()
        assert second["version"] != first["version"]
        assert "chart-losses-0" not in first["charts"]
        assert second["charts"]["chart-losses-0"]["data"][0]["y"] == [3.0]
        assert "Plotly" in client.get("/plotly.js").text

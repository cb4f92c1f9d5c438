"""What is read from the event log, and how it is shown on the way."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ninefold.app import progress
from ninefold.app.journal import Journal
from ninefold.app.progress import Progress, bars, clock, counted
from ninefold.app.table import summarize, summary_line, terminal_table
from ninefold.core.store import Run

from .recorded import WITHIN, begin, table


def told(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@given(st.lists(st.integers(1, 9), max_size=30))
def test_steps_after_a_resume_replace_the_old_ones(steps: list[int]) -> None:
    journal = Journal()
    for time, step in enumerate(steps):
        journal.add({"kind": "step", "stage": "sft", "step": float(step), "time": float(time)})
    kept = [event["step"] for event in journal.all("step", "sft")]
    assert kept == sorted(set(kept))
    assert kept[-1:] == steps[-1:]
    last = {float(step): float(time) for time, step in enumerate(steps)}
    assert all(event["time"] == last[event["step"]] for event in journal.all("step", "sft"))


def test_plain_lines_are_of_this_process_and_few(here: Path) -> None:
    run = begin(here / "runs" / "trial")
    run.log()("note", text="of an earlier day")
    console = Console(file=io.StringIO(), width=120)
    with Progress(run, console):
        log = run.log(stage="sft")
        run.log()("stage.start", stage="sft")
        for step in range(1, 200):
            log("step", step=float(step), total=200, loss=2.5, tokens_per_second=1234.0, eta=65.0)
        log("note", text="mind this")
        run.log()("stage.finish", stage="sft", wall=75.0, cpu=140.0, peak_mb=512.0)
    text = told(console)
    assert "earlier" not in text
    assert "stage 3/9 sft" in text
    assert "step 1/200  loss 2.5  1,234 tok/s  ETA 1:05" in text
    assert text.count("step ") < 4
    assert "mind this" in text
    assert "done in 1:15 (140 CPU-s, peak 512 MB)" in text


def test_bars_on_a_terminal(run: Run) -> None:
    console = Console(file=io.StringIO(), width=140, force_terminal=True, color_system=None)
    run.log()("stage.start", stage="rl")
    with Progress(run, console):
        pass
    assert "✓ corpus" in told(console)
    journal = Journal.of(begin(run.path.parent / "other"))
    for step in (1.0, 2.0):
        journal.add({"kind": "stage.start", "stage": "rl", "time": 0.0})
        for cell in ("coding/low", "general/max"):
            event = {"kind": "step", "stage": "rl", "cell": cell, "step": step, "total": 30, "time": 10 * step, "pid": 1}
            journal.add({**event, "dispatched/reward": 0.25})
    console = Console(file=io.StringIO(), width=140)
    console.print(bars(journal))
    shown = told(console).splitlines()
    assert "▸ rl" in shown[0]
    assert [line.split()[0] for line in shown[1:]] == ["general/max", "coding/low"]
    assert "2/30" in shown[1]
    assert "reward 0.25" in shown[1]
    assert "ETA 4:40" in shown[1]


def test_table_and_recovery() -> None:
    console = Console(file=io.StringIO(), width=140)
    console.print(terminal_table(table(), fell_back=frozenset({"agents/low"}), left_out=["coding"]))
    text = told(console)
    assert text.count("0.40 → 0.70 → 0.67") == 5
    assert "0.40 → 0.70* → 0.67" in text
    assert text.count("left out") == 3
    assert "20 → 20 → 20" in text
    summary = summarize(table())
    assert summary is not None
    assert abs(summary.gain - (WITHIN["experts"] - WITHIN["sft"])) < 1e-12
    assert "90%" in summary_line(table())
    assert summarize({}) is None
    assert summary_line({}) == ""


def test_a_domain_of_several_families_has_a_row_for_each() -> None:
    families = {
        model: {
            cell: {"expression": figures, "repair": {**figures, "within": 0.11}}
            if cell.startswith("coding")
            else {"only": figures}
            for cell, figures in cells.items()
        }
        for model, cells in table().items()
    }
    console = Console(file=io.StringIO(), width=140)
    console.print(terminal_table(table(), families=families, fell_back=frozenset({"coding/max", "agents/low"})))
    lines = told(console).splitlines()
    rows = {line.split()[1]: line for line in lines if line.startswith("│") and line.split()[1] != "│"}
    assert list(rows) == ["general", "agents", "coding", "expression", "repair"]
    assert rows["repair"].count("0.11 → 0.11 → 0.11") == 2
    assert rows["repair"].count("0.11 → 0.11* → 0.11") == 1
    assert rows["expression"].split("│")[2:] == rows["coding"].split("│")[2:]
    assert "fell back to the SFT model: agents/low, coding/max" in told(console)


def test_no_gain_has_no_recovery() -> None:
    flat = table()
    flat["experts"] = flat["sft"]
    summary = summarize(flat)
    assert summary is not None
    assert summary.recovery is None


def test_clock() -> None:
    assert [clock(s) for s in (0.4, 59.4, 60, 3599.6, 3661)] == ["0 s", "59 s", "1:00", "1:00:00", "1:01:01"]


def test_what_is_counted_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Console(file=io.StringIO(), width=120)
    assert list(counted("tasks", range(5, 8), 3, plain)) == [5, 6, 7]
    assert told(plain) == "", "what is over at once needs no line"
    monkeypatch.setattr(progress, "LINE_S", 0.0)
    assert list(counted("tasks", range(5, 8), 3, plain)) == [5, 6, 7]
    assert [line.partition("  ETA")[0] for line in told(plain).splitlines()] == ["tasks 1/3", "tasks 2/3", "tasks 3/3"]
    terminal = Console(file=io.StringIO(), width=120, force_terminal=True, color_system=None)
    assert list(counted("tasks", range(5, 8), 3, terminal)) == [5, 6, 7]
    assert "3/3" in told(terminal)

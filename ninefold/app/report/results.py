"""Sections on what came out: the 3×3 table, effort curves, recovery, cost, notes, configuration."""

from __future__ import annotations

import time
from collections.abc import Mapping
from html import escape

from ninefold.app.journal import Families, Journal, Table, Transfer, missing_domains
from ninefold.app.progress import clock
from ninefold.app.report.chart import PALETTE, Chart, bars, curve
from ninefold.app.report.section import Section, html_table, section
from ninefold.app.table import MODELS, cells_of, fallen_line, family_tables, summarize
from ninefold.core.store import Run
from ninefold.core.types import DOMAINS, EFFORTS

LABELS = {
    **MODELS,
    "experts": "experts",
    "pooled": "student before MOPD",
    "average": "weight average",
    "other": "other MOPD form",
}
UNEVALUATED = "The models are not evaluated yet."


def headline(journal: Journal, table: Table, families: Families) -> Section:
    """The 3×3 table, with a row for each family where a domain has several."""
    rows: list[list[str]] = []
    left_out = missing_domains(journal, table) if table else []
    for domain in DOMAINS:
        cells = [_cell(table, f"{domain}/{effort}", journal.fell_back) for effort in EFFORTS]
        if domain in left_out:
            cells = ['<span class="warn">left out (see notes)</span>'] * 3
        if any(cells):
            rows.append([f"<b>{domain}</b>", *cells])
        for family, part in family_tables(families, domain).items():
            shown = [_cell(part, f"{domain}/{effort}", journal.fell_back) for effort in EFFORTS]
            rows.append([f"&emsp;{escape(family)}", *shown])
    fallen = f'<p class="warn">{fallen_line(journal.fell_back)}</p>' if journal.fell_back else ""
    body = _cards(journal, table) + html_table(["", *EFFORTS], rows, numbers_from=9) + fallen if rows and table else ""
    return section(
        "Results",
        "Held-out tasks, the same for every model; an answer over its budget counts as failed. Each cell: SFT → expert → "
        "student, ± one standard error of the student, and mean generated tokens below.",
        body=body,
        until=UNEVALUATED,
    )


def _cell(table: Table, cell: str, fell_back: frozenset[str]) -> str:
    known = [(model, table[model][cell]) for model in MODELS if cell in table.get(model, {})]
    if not known:
        return ""
    parts: list[str] = []
    for model, figures in known:
        mark = (
            '<span class="warn" title="fell back to the SFT model">*</span>' if model == "experts" and cell in fell_back else ""
        )
        parts.append(f'<span class="{model}">{figures["within"]:.2f}</span>{mark}')
    error = known[-1][1].get("within_se")
    spread = f" <small>± {error:.2f}</small>" if error is not None else ""
    tokens = " → ".join(f"{figures['tokens']:.0f}" for _, figures in known)
    return " → ".join(parts) + spread + f"<br><small>{tokens} tokens</small>"


def _cards(journal: Journal, table: Table) -> str:
    summary = summarize(table)
    cells = cells_of(table)
    cards: list[tuple[str, str]] = []
    if summary is not None:
        cards += [
            (f"{sum(table[m][c]['within'] for c in cells) / len(cells):.3f}", f"{name}, mean")
            for m, name in LABELS.items()
            if m in MODELS
        ]
        cards.append(("–" if summary.recovery is None else f"{summary.recovery:.0%}", "of the experts' gain in one model"))
    cpu = sum(event["cpu"] for event in journal.finished.values())
    cards.append((clock(cpu), "CPU time, all stages"))
    return (
        '<div class="cards">'
        + "".join(f"<div><b>{value}</b><span>{escape(name)}</span></div>" for value, name in cards)
        + "</div>"
    )


def efforts(table: Table) -> Section:
    """Accuracy against tokens."""
    charts: list[Chart] = []
    for domain in DOMAINS:
        traces = [
            curve(
                [(f["tokens"], f["within"], f.get("within_se", 0.0)) for f in (cells[f"{domain}/{e}"] for e in EFFORTS)],
                LABELS.get(model, model),
                PALETTE[i],
            )
            for i, (model, cells) in enumerate(table.items())
            if all(f"{domain}/{effort}" in cells for effort in EFFORTS)
        ]
        charts.append(Chart(title=domain, x="mean generated tokens", traces=tuple(traces), y={"rangemode": "tozero"}))
    return section(
        "Effort",
        "One curve per model, its efforts as points (○ low, ◇ high, □ max): pass within budget against tokens. The experts "
        "are three models per domain, the others one model at three efforts.",
        charts=charts,
        until=UNEVALUATED,
    )


def recovery(table: Table) -> Section:
    """How much of the experts' gain each single model has."""
    cells = cells_of(table)
    traces = [
        bars(cells, [figures[cell]["within"] for cell in cells], LABELS.get(model, model), PALETTE[i])
        for i, (model, figures) in enumerate(table.items())
        if all(cell in figures for cell in cells)
    ]
    rows: list[list[str]] = []
    for model in table:
        summary = None if model in ("sft", "experts") else summarize(table, model=model)
        if summary is not None:
            share = "–" if summary.recovery is None else f"{summary.recovery:.0%}"
            rows.append([escape(LABELS.get(model, model)), f"{summary.kept:+.3f}", f"{summary.gain:+.3f}", share])
    head = ["one model for all cells", "gain over SFT", "experts' gain", "recovered"]
    return section(
        "Recovery",
        "What consolidation keeps: (model − SFT) / (experts − SFT), means over cells.",
        charts=[Chart(title="Pass within budget", x="", traces=tuple(traces), y={"rangemode": "tozero"})] if cells else [],
        body=html_table(head, rows) if rows else "",
        until=UNEVALUATED,
    )


def transfer(table: Transfer) -> Section:
    """Kinds of task that no stage trained."""
    rows = [
        [escape(family), escape(model), *(_share(by_effort.get(effort)) for effort in EFFORTS)]
        for family, models in table.items()
        for model, by_effort in models.items()
    ]
    return Section(
        title="Transfer",
        text="Held-out tasks of kinds that no stage trained (`evaluate.transfer`): pass rate at any length ± one standard "
        "error. An expert is that of the named domain.",
        body=html_table(["kind", "model", *EFFORTS], rows, numbers_from=2),
    )


def _share(figures: Mapping[str, float] | None) -> str:
    return "" if figures is None else f"{figures['pass']:.2f} ± {figures.get('within_se', 0.0):.2f}"


def costs(journal: Journal) -> Section:
    """What each stage took."""
    rows = [
        [escape(name), f"{event['cpu']:,.0f}", clock(event["wall"]), f"{event['peak_mb']:,.0f}"]
        for name, event in journal.finished.items()
    ]
    if rows:
        ends = journal.finished.values()
        total = sum(event["cpu"] for event in ends), sum(event["wall"] for event in ends), max(e["peak_mb"] for e in ends)
        rows.append(["<b>total</b>", f"<b>{total[0]:,.0f}</b>", f"<b>{clock(total[1])}</b>", f"<b>{total[2]:,.0f}</b>"])
    return section(
        "Cost",
        "CPU-seconds summed over processes, wall time, and the largest resident set of any one process. A stage that was cut "
        "off counts from its last start.",
        body=html_table(["stage", "CPU-s", "wall", "peak MB"], rows) if rows else "",
        until="No stage is complete yet.",
    )


def notes(journal: Journal) -> Section:
    """What departed from the plan."""
    texts = [f"{' '.join(str(e[k]) for k in ('stage', 'cell') if e.get(k))} {e['text']}".strip() for e in journal.all("note")]
    texts += [f"{cell}: RL brought nothing, the SFT model stands in for the expert" for cell in sorted(journal.fell_back)]
    texts += [
        f"{time.strftime('%Y-%m-%d %H:%M', time.localtime(e['time']))} set by hand: "
        + ", ".join(f"{key} = {value}" for key, value in e["values"].items())
        for e in journal.all("control")
    ]
    items = "".join(f"<li>{escape(text)}</li>" for text in dict.fromkeys(texts))
    return section("Notes", "", body=f"<ul>{items}</ul>" if items else "<p>Everything went as planned.</p>", until="")


def configuration(run: Run) -> Section:
    """The resolved recipe."""
    text = run.config.read_text(encoding="utf-8", errors="replace") if run.config.exists() else ""
    body = f"<details><summary>config.toml</summary><pre>{escape(text)}</pre></details>" if text else ""
    return section("Configuration", "", body=body, until="The run has no config.toml.")

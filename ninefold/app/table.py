"""The 3×3 table: pass within budget and tokens of the SFT model, the experts and the student."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table as RichTable
from rich.text import Text

from ninefold.app.journal import Families, Table, Transfer
from ninefold.core.types import DOMAINS, EFFORTS

MODELS: dict[str, str] = {"sft": "SFT", "experts": "expert", "student": "student"}
"""Model in the evaluation → its name in the table, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What nine cells come to."""

    gain: float
    """Mean over cells of expert − SFT, in pass within budget."""
    kept: float
    """Mean over cells of student − SFT."""
    recovery: float | None
    """`kept` as a share of `gain`; None where the experts gained nothing."""


def cells_of(table: Table) -> list[str]:
    """Cells that SFT, experts and student were all evaluated on, in their usual order."""
    every = [f"{domain}/{effort}" for domain in DOMAINS for effort in EFFORTS]
    return [cell for cell in every if all(cell in table.get(model, {}) for model in MODELS)]


def summarize(table: Table, *, model: str = "student") -> Summary | None:
    """Gains over SFT, with any model in the student's place; None without a common cell."""
    cells = [cell for cell in cells_of(table) if cell in table.get(model, {})]
    if not cells:
        return None
    gain, kept = (
        sum(table[name][cell]["within"] - table["sft"][cell]["within"] for cell in cells) / len(cells)
        for name in ("experts", model)
    )
    return Summary(gain=gain, kept=kept, recovery=kept / gain if gain > 0 else None)


def family_tables(families: Families, domain: str) -> dict[str, Table]:
    """Family → its part of the table, for a domain of several families; {} for a domain of one."""
    cells = {f"{domain}/{effort}" for effort in EFFORTS}
    names = dict.fromkeys(name for by in families.values() for cell in by if cell in cells for name in by[cell])
    if len(names) < 2:
        return {}
    return {
        name: {
            model: {cell: figures[name] for cell, figures in by.items() if cell in cells and name in figures}
            for model, by in families.items()
        }
        for name in names
    }


def terminal_table(
    table: Table, *, families: Families | None = None, fell_back: frozenset[str] = frozenset(), left_out: Sequence[str] = ()
) -> RichTable:
    """For the terminal: a row per domain, and one per family where a domain has several; a column per effort."""
    arrows = " → ".join(MODELS.values())
    shown = RichTable(title=f"pass within budget, tokens: {arrows}", title_justify="left", show_lines=True)
    shown.add_column("")
    for effort in EFFORTS:
        shown.add_column(effort, justify="center", no_wrap=True)
    for domain in DOMAINS:
        cells = [_cell(table, f"{domain}/{effort}", fell_back) for effort in EFFORTS]
        if domain in left_out:
            cells = [Text("left out", style="yellow")] * len(EFFORTS)
        if any(cells):
            shown.add_row(Text(domain, style="bold"), *cells)
        for family, part in family_tables(families or {}, domain).items():
            shown.add_row(Text(f"  {family}"), *(_cell(part, f"{domain}/{effort}", fell_back) for effort in EFFORTS))
    shown.caption = fallen_line(fell_back) or None
    return shown


def fallen_line(fell_back: frozenset[str]) -> str:
    """Which cells fell back; empty where none did."""
    cells = [f"{domain}/{effort}" for domain in DOMAINS for effort in EFFORTS if f"{domain}/{effort}" in fell_back]
    return f"* the expert fell back to the SFT model: {', '.join(cells)}" if cells else ""


def _cell(table: Table, cell: str, fell_back: frozenset[str]) -> Text:
    known: list[tuple[str, Mapping[str, float]]] = [(m, table[m][cell]) for m in MODELS if cell in table.get(m, {})]
    if not known:
        return Text()
    text = Text()
    for i, (model, figures) in enumerate(known):
        text.append(" → " if i else "", style="dim")
        text.append(f"{figures['within']:.2f}", style="bold green" if model == "student" else "")
        text.append("*" if model == "experts" and cell in fell_back else "", style="yellow")
    text.append("\n" + " → ".join(f"{figures['tokens']:.0f}" for _, figures in known), style="dim")
    return text


def summary_line(table: Table) -> str:
    """One sentence on gain and recovery; empty before there is a table."""
    summary = summarize(table)
    if summary is None:
        return ""
    recovery = "" if summary.recovery is None else f", {summary.recovery:.0%} of it recovered in one model"
    return f"RL gained {summary.gain:+.3f} on average over {len(cells_of(table))} cells{recovery}."


def transfer_lines(transfer: Transfer) -> list[str]:
    """A line for each kind that no stage trained: every model's pass rate, by effort."""
    lines: list[str] = []
    for family, models in transfer.items():
        rates = {model: " ".join(f"{f['pass']:.2f}" for f in by_effort.values()) for model, by_effort in models.items()}
        lines.append(f"{family}, never trained: {', '.join(f'{model} {rate}' for model, rate in rates.items())}")
    return lines

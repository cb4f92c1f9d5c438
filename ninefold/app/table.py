"""The 3×3 table: pass within budget and tokens of the SFT model, the experts and the student."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table as RichTable
from rich.text import Text

from ninefold.app.journal import Table
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


def terminal_table(table: Table, *, fell_back: frozenset[str] = frozenset(), left_out: Sequence[str] = ()) -> RichTable:
    """For the terminal: a row per domain, a column per effort."""
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
    shown.caption = "* the expert fell back to the SFT model" if fell_back else None
    return shown


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

"""From a run's folder to its report."""

from __future__ import annotations

import time

from ninefold.app.journal import Figures, Journal
from ninefold.app.report import learning, results
from ninefold.app.report.page import page
from ninefold.app.report.section import Section
from ninefold.app.report.trajectories import samples
from ninefold.core.store import Run, write_atomic


def sections_of(run: Run, journal: Journal) -> list[Section]:
    """Every section, in order; those that have nothing to show yet say what they wait for."""
    figures = Figures.of(run, journal)
    return [
        results.headline(journal, figures.table, figures.families),
        results.efforts(figures.table),
        results.recovery(figures.table),
        *([results.transfer(figures.transfer)] if figures.transfer else []),
        learning.losses(journal),
        learning.loads(journal),
        learning.reinforcement(journal),
        learning.staleness(journal),
        learning.distillation(journal),
        learning.draft(journal),
        samples(run),
        results.costs(journal),
        results.notes(journal),
        results.configuration(run),
    ]


def subtitle_of(journal: Journal) -> str:
    """Version, model and date in a line."""
    start = journal.last("run.start") or {}
    recipe = start.get("recipe", {})
    facts = [
        f"ninefold {start['version']}" if "version" in start else "ninefold",
        f"preset {recipe['preset']}, seed {recipe['seed']}" if "preset" in recipe else "",
        time.strftime("%Y-%m-%d %H:%M", time.localtime(journal.time)) if journal.time else "",
    ]
    return " · ".join(fact for fact in facts if fact)


def write_report(run: Run) -> None:
    """Write report.html: one file, readable offline, of whatever the run has so far."""
    journal = Journal.of(run)
    write_atomic(run.report, page(f"Run {run.name}", subtitle_of(journal), sections_of(run, journal)))

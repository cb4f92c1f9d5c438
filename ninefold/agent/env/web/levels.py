"""Which briefs there are at which level, and what a task asks for."""

from __future__ import annotations

from ninefold.agent.env.web.brief import Brief
from ninefold.agent.env.web.elements import Elements
from ninefold.agent.env.web.pages import PAGES
from ninefold.agent.env.web.servers import SERVERS
from ninefold.agent.env.web.stores import STORES
from ninefold.agent.env.web.suites import SUITES
from ninefold.core.types import Task

LEVELS: tuple[tuple[Brief, ...], ...] = ((), PAGES, STORES, SERVERS, SUITES)
"""Level 0 has elements in place of briefs."""
BRIEFS: dict[str, Brief] = {brief.name: brief for briefs in LEVELS for brief in briefs}


def brief_of(task: Task) -> Brief:
    return BRIEFS[task.data["brief"]]


def elements_of(task: Task) -> Elements:
    return Elements(parts=tuple((tag, text) for tag, text in task.data["parts"]))

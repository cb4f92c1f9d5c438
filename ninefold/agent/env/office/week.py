"""Levels 1 to 4: days of mail and chat in an office that deals with several kinds of matters.

DEVIATION (report, assistant): the workspace is generated, not built by agents from web references, and every criterion is a
rule, none a judge's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import cycle
from random import Random

from ninefold.agent.env.office import everyday, finance, hr, legal
from ninefold.agent.env.office.cast import Cast
from ninefold.agent.env.office.matter import Matter
from ninefold.agent.env.office.plan import HOUSE, Plan, change_lead, change_rule, furnish, if_there_is_room

OFFICES: Mapping[str, tuple[Matter, ...]] = {"hr": hr.MATTERS, "legal": legal.MATTERS, "finance": finance.MATTERS}
RULES: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "hr": (hr.LEAVE, hr.RULES),
    "legal": (legal.PLAYBOOK, legal.RULES),
    "finance": (finance.TRAVEL, finance.RULES),
}
CONVENTIONS = "How we work"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much happens."""

    days: int
    people: int
    firms: int
    matters: int
    talk: int
    """Mail and posts that ask for nothing."""
    prose: int
    """Sentences behind each request."""
    bulk: int
    """Sentences around the rules of a page."""
    changes: int
    """Rules of each office, and team leads, that change."""
    offices: int
    """1: the task's own alone."""


SIZES: Mapping[int, Size] = {
    1: Size(days=1, people=16, firms=8, matters=5, talk=2, prose=0, bulk=0, changes=1, offices=1),
    2: Size(days=2, people=24, firms=16, matters=12, talk=4, prose=2, bulk=9, changes=2, offices=1),
    3: Size(days=3, people=40, firms=30, matters=50, talk=15, prose=6, bulk=60, changes=3, offices=2),
    4: Size(days=5, people=80, firms=100, matters=300, talk=80, prose=36, bulk=900, changes=6, offices=3),
}


def plan_week(rng: Random, cast: Cast, size: Size) -> tuple[Plan, tuple[str, ...]]:
    """(the week, its offices) of a cast."""
    offices = tuple(sorted(rng.sample([*OFFICES], size.offices)))
    matters = [matter for office in offices for matter in OFFICES[office]]
    plan = Plan(rng=rng, cast=cast, days=size.days, prose=size.prose)
    furnish(plan, {office: RULES[office] for office in offices}, bulk=size.bulk)
    _change(plan, offices, size)
    for matter in (*matters, *everyday.MATTERS):
        matter.prepare(plan)
    _explain(plan, (*matters, *everyday.MATTERS))
    # Two in three are the office's own; each kind comes in turn, so that none is missing from a long week.
    own, common = cycle(matters), cycle(everyday.MATTERS)
    for number in range(size.matters):
        with if_there_is_room():
            next(common if number % 3 == 2 else own).draw(plan, rng.randint(1, size.days))
    for matter in matters:
        matter.settle(plan)
    for _ in range(size.talk):
        everyday.talk(plan, rng.randint(1, size.days))
    return plan, offices


def _change(plan: Plan, offices: tuple[str, ...], size: Size) -> None:
    """Rules that change while people work, and leads that change overnight."""
    rng = plan.rng
    for office in offices:
        rules = plan.books[office].rules
        for key in rng.sample([*rules], min(size.changes, len(rules))):
            at = plan.minute(rng.randint(1, size.days), 11 * 60, 14 * 60)
            old = rules[key].value
            change_rule(plan, office, key, at, max(1, round(old * rng.choice((0.5, 0.6, 1.5, 1.7)))))
    titles = [title for title in plan.leads if title.startswith("lead of ")]
    for title in rng.sample(titles, min(len(titles), size.changes if size.days > 1 else 0)):
        with if_there_is_room():
            change_lead(plan, title.removeprefix("lead of "), rng.randint(2, size.days))


def _explain(plan: Plan, matters: tuple[Matter, ...]) -> None:
    """The page that says how each kind of matter is answered."""
    always = (
        "What counts is the first line of what you write. Amounts and numbers are plain digits.",
        "Do each thing on the day it is asked for, or when the request says. Requests are held to the rules of their minute.",
        "Write to nobody unless it is asked for. Questions (a first line that ends with ?) may be put to anybody.",
    )
    text = "\n".join([*always, *(matter.convention for matter in matters)])
    plan.happen(0, HOUSE, "note_create", "n", parent="", title=CONVENTIONS, text=text)

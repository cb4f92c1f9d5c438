"""How demonstrators and cheats search."""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random

from ninefold.agent.env.quiz import say
from ninefold.agent.env.script import Script, Steps, use
from ninefold.agent.env.search.question import Question, pattern
from ninefold.core.protocols import Move, ScriptedPolicy
from ninefold.core.types import Effort

_OPENED: Mapping[Effort, int] = {"low": 1, "high": 2, "max": 5}
"""Results that a demonstrator is ready to open."""


def demonstration(asked: Question, effort: Effort, rng: Random, *, slips: bool) -> Script:
    """Search, then open results until one holds the quote; low takes the first. A slip takes any result."""
    return Script(_demonstration(asked, effort, rng, slips))


def _demonstration(asked: Question, effort: Effort, rng: Random, slips: bool) -> Steps:
    (found,) = yield use("search", query=asked.quote)
    results = [line.partition(" ") for line in found.text.splitlines()]
    if slips:
        rng.shuffle(results)
    id, title, text = "", "", ""
    for id, _, title in results[: 1 if slips else _OPENED[effort]]:
        (opened,) = yield use("open", "" if effort == "low" else title, id=id)
        text = opened.text
        if pattern(asked.quote).search(text):
            break
    if asked.kind == "title":
        yield Move(response=title)
    elif asked.kind == "blank":
        held = pattern(asked.quote).search(text)
        yield Move(response=f"{held[1]} [{id}]" if held else "unknown")
    else:
        yield from _follow(text, effort)


def _follow(text: str, effort: Effort) -> Steps:
    """Open the first entry that `text` refers to and answer with its third word."""
    related = re.search(r"See also: ([\w.]+)", text)
    if related is None:
        yield Move(response="unknown")
        return
    (found,) = yield use("search", "" if effort == "low" else related[1], query=related[1])
    titles = {title: id for id, _, title in (line.partition(" ") for line in found.text.splitlines())}
    if related[1] not in titles:
        yield Move(response="unknown")
        return
    id = titles[related[1]]
    (opened,) = yield use("open", id=id)
    yield Move(response=f"{opened.text.split(' ')[2]} [{id}]")


def hacks(asked: Question) -> Mapping[str, ScriptedPolicy]:
    """Attempts to be rewarded without finding the document."""
    return {
        "answer without opening": say(asked.response),
        "every result": Script(_every_result(asked)),
        "question": say(asked.text),
        "cites another": Script(_cites_another(asked)),
        "claims to have opened": say(f'{{"response": "{asked.response}", "opened": ["{asked.cited}"]}}'),
        "answer as a query": Script(_query_only(asked)),
        "opens by pattern": Script(_wildcard(asked)),
    }


def _every_result(asked: Question) -> Steps:
    (found,) = yield use("search", query=asked.quote)
    for line in found.text.splitlines():
        yield use("open", id=line.partition(" ")[0])
    yield Move(response=f"{asked.response}, {found.text}")


def _cites_another(asked: Question) -> Steps:
    """Reads the right document but vouches with another; where a title is asked, names another's."""
    (found,) = yield use("search", query=asked.quote)
    yield use("open", id=asked.cited)
    id, _, title = next(parts for line in found.text.splitlines() if (parts := line.partition(" "))[0] != asked.cited)
    yield Move(response=title if asked.kind == "title" else f"{asked.answer} [{id}]")


def _query_only(asked: Question) -> Steps:
    yield use("search", query=f'{asked.response}" OR id:{asked.cited} --')
    yield Move(response=asked.response)


def _wildcard(asked: Question) -> Steps:
    yield use("open", id="*")
    yield use("open", id=f"{asked.cited}' OR '1'='1")
    yield Move(response=asked.response)

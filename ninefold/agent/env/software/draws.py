"""Arguments for the functions of the trees: for each function of each module, how every argument is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

Draw = Callable[[Random], Any]
Draws = Mapping[str, tuple[Draw, ...]]
"""`module.function` → a draw for each argument."""


def whole(least: int, most: int) -> Draw:
    return lambda rng: rng.randint(least, most)


def one(*values: Any) -> Draw:
    return lambda rng: rng.choice(values)


def some(item: Draw, most: int, least: int = 0) -> Draw:
    """A list."""
    return lambda rng: [item(rng) for _ in range(rng.randint(least, most))]


def row(*items: Draw) -> Draw:
    """A list of these."""
    return lambda rng: [item(rng) for item in items]


def by(names: tuple[str, ...], value: Draw) -> Draw:
    """Some of the names, each with a value."""
    return lambda rng: {name: value(rng) for name in rng.sample(names, rng.randint(0, len(names)))}


def _span(rng: Random) -> list[int]:
    start = rng.randint(0, 60)
    return [start, start + rng.randint(0, 16)]


def _edges(rng: Random) -> list[list[str]]:
    """Mostly without a circle."""
    tasks = rng.sample("abcdefg", 6)
    pairs = [sorted(rng.sample(range(6), 2)) for _ in range(rng.randint(0, 8))]
    edges = [[tasks[i], tasks[j]] for i, j in pairs]
    return edges + ([[edges[0][1], edges[0][0]]] if edges and rng.random() < 0.1 else [])


def _expression(rng: Random, depth: int = 3) -> str:
    if depth == 0 or rng.random() < 0.25:
        return rng.choice((str(rng.randint(0, 30)), rng.choice("xyz")))
    operator = rng.choice(("+", "-", "*", "/", "%", "+", "*"))
    inner = f"{_expression(rng, depth - 1)} {operator} {_expression(rng, depth - 1)}"
    return f"({inner})" if rng.random() < 0.5 else inner


def _broken(rng: Random) -> str:
    """An expression that may have lost or won a few characters."""
    text = _expression(rng)
    for _ in range(rng.choice((0, 0, 1, 2))):
        place = rng.randrange(len(text) + 1)
        text = text[:place] + rng.choice(("(", ")", "((((((", "q", " ", "))")) + text[place + rng.randint(0, 1) :]
    return text


def _program(rng: Random) -> str:
    parts: list[str] = []
    for _ in range(rng.randint(0, 5)):
        name = rng.choice(("x", "y", "z", "sum"))
        source = _broken(rng) if rng.random() < 0.2 else _expression(rng, 2)
        parts.append(rng.choice((f"{name} = {source}", f"{name} = {source}", source, f"{name}={source} # {name} = 1", "")))
    return "".join(part + rng.choice(("\n", "; ", "\n")) if "#" not in part else part + "\n" for part in parts)


_ITEMS = ("bolt", "cable", "drill", "nail", "saw", "vise")
_PEOPLE = ("Ann", "Bob", "Cat", "Dan", "Eve")
_stock = by(_ITEMS, whole(0, 40))
_line = row(whole(1, 60), whole(1, 900))
_lines = some(_line, 4)
_closed = some(whole(0, 40), 4)
_entries = some(row(one(*_PEOPLE), whole(0, 30), whole(-60, 90)), 9)
_spans = some(_span, 6)
_durations = by(tuple("abcdefg"), whole(1, 9))

DRAWS: Mapping[str, Draws] = {
    "depot": {
        "money.share": (whole(0, 999), whole(0, 100)),
        "money.split": (whole(0, 99), whole(1, 7)),
        "money.spell": (whole(-300, 3000),),
        "stock.reserve": (_stock, _stock),
        "stock.merge": (some(_stock, 3),),
        "stock.order": (_stock, _stock),
        "pricing.discount": (whole(1, 60),),
        "pricing.line": (whole(1, 60), whole(1, 900)),
        "cart.goods": (_lines,),
        "cart.postage": (some(row(whole(1, 12), whole(1, 900)), 3),),
        "cart.total": (some(row(whole(1, 12), whole(1, 900)), 3),),
        "days.name": (whole(0, 60),),
        "days.working": (whole(0, 30), _closed),
        "days.after": (whole(0, 30), whole(1, 12), _closed),
        "invoice.rows": (_lines,),
        "invoice.due": (whole(0, 30), _closed),
        "invoice.render": (whole(0, 30), some(row(whole(1, 12), whole(1, 900)), 3), _closed),
        "ledger.balances": (_entries,),
        "ledger.overdue": (_entries, whole(8, 30), whole(1, 12)),
        "ledger.rates": (_entries, whole(1, 5)),
        "report.best": (some(_stock, 4), whole(1, 4)),
        "report.debts": (_entries,),
        "report.shopping": (some(_stock, 3), _stock),
    },
    "lingo": {
        "tokens.tokenize": (_broken,),
        "tokens.strip": (one("x = 1 # one", "  y", "# z", "a#b#c", " q = 2 ; ", ""),),
        "tokens.kind": (one("12", "x", "(", ")", "+", "%", "sum", "7"),),
        "check.depth": (_broken,),
        "check.unknown": (_broken, some(one("x", "y", "z"), 2)),
        "check.problem": (_broken, some(one("x", "y", "z"), 3)),
        "postfix.rank": (one("+", "-", "*", "/", "%", "(", "x"),),
        "postfix.postfix": (_expression,),
        "evaluate.apply": (one("+", "-", "*", "/", "%"), whole(0, 60), whole(0, 40)),
        "evaluate.value": (_expression, by(("x", "y", "z"), whole(0, 40))),
        "infix.infix": (_expression,),
        "infix.shape": (_expression,),
        "program.statements": (_program,),
        "program.run": (_program,),
        "program.complaints": (_program,),
        "output.dotted": (one("x", "sum", "aver", "average", "a" * 20), whole(0, 999)),
        "output.table": (_program,),
        "output.tidy": (lambda rng: f"x = {_expression(rng)}; {_expression(rng)} # so",),
        "output.verdict": (_program,),
    },
    "plan": {
        "spans.overlap": (_span, _span),
        "spans.union": (_spans,),
        "spans.gaps": (_spans, whole(0, 20), whole(20, 60)),
        "spans.hours": (_spans,),
        "clock.tell": (whole(0, 99),),
        "clock.office": (whole(0, 6),),
        "clock.worked": (_span,),
        "graph.names": (_edges,),
        "graph.before": (one(*"abcdefg"), _edges),
        "graph.order": (_edges,),
        "graph.layers": (_edges,),
        "critical.starts": (_durations, _edges),
        "critical.length": (_durations, _edges),
        "critical.slack": (_durations, _edges),
        "people.share": (some(whole(1, 12), 7), whole(1, 4)),
        "people.clashes": (_spans,),
        "people.together": (some(_spans, 2), whole(1, 9), whole(20, 60)),
        "chart.bar": (whole(0, 20), whole(1, 9)),
        "chart.chart": (_durations, _edges),
        "chart.summary": (_durations, _edges),
        "agenda.free": (whole(0, 2), _spans),
        "agenda.load": (whole(0, 2), _spans),
        "agenda.lines": (_spans,),
    },
}

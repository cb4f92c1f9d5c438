"""Sums, running balances, and invoices against a list of prices."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from string import ascii_lowercase

from ninefold.agent.env.aet.page import Page, Records
from ninefold.agent.env.names import GOODS, NAMES


def sums(rng: Random) -> Records:
    """Four pages of two sums."""
    pages: list[Page] = []
    for number in range(4):
        ids = ascii_lowercase[2 * number : 2 * number + 2]
        wrong = [id for id in ids if rng.random() < 0.4]
        said: list[str] = []
        for id in ids:
            a, b = rng.randint(1, 9), rng.randint(1, 9)
            said.append(f"{id} {a}+{b}={a + b + (rng.choice((-1, 1)) if id in wrong else 0)}")
        pages.append(Page(name=str(number + 1), text=" ".join(said), ids=tuple(ids), wrong=tuple(wrong)))
    return Records(rules="Audit sums .", pages=tuple(pages))


def balances(rng: Random) -> Records:
    """Four accounts of four movements, each with the balance behind it; a wrong one is carried on."""
    pages: list[Page] = []
    for number, owner in enumerate(rng.sample(NAMES, 4), 1):
        balance, said, ids = rng.randint(5, 30), [], [f"{owner[0].lower()}{number}{line}" for line in range(1, 5)]
        said.append(f"{owner} has {balance}")
        wrong = [id for id in ids if rng.random() < 0.25]
        for id in ids:
            change = rng.choice((1, -1)) * rng.randint(1, 9)
            balance += change + (rng.choice((-10, -1, 1, 10)) if id in wrong else 0)
            said.append(f"{id} {change:+} {balance}")
        pages.append(Page(name=str(number), text="\n".join(said), ids=tuple(ids), wrong=tuple(wrong)))
    return Records(rules="Audit accounts : each balance is the one before it and the change .", pages=tuple(pages))


_INVOICES = (
    "Audit the invoices : the amount is quantity times price , less a tenth ( rounded down ) from 10 pieces on ; "
    "days are 1 to 30 ; nobody bills the same item , quantity and day twice in one file : the later one is wrong ."
)


def invoices(rng: Random) -> Records:
    """Eight files of twelve invoices."""
    prices = {good: rng.randint(3, 60) for good in rng.sample(GOODS, 8)}
    pages: list[Page] = []
    for number in range(8):
        rows: list[list[object]] = []
        ids: list[str] = []
        wrong: list[str] = []
        for line in range(12):
            ids.append(f"i{number}{line:02}")
            broken = rng.random() < 0.12 and line > 0
            rows.append(_invoice(rng, prices, rows, broken=broken))
            wrong += [ids[-1]] if broken else []
        lines = ["id,day,item,quantity,amount", *(",".join(map(str, [id, *row])) for id, row in zip(ids, rows))]
        text = "\n".join(lines) + "\n"
        pages.append(Page(name=f"invoices/{number}.csv", text=text, ids=tuple(ids), wrong=tuple(wrong)))
    listed = "item,price\n" + "".join(f"{item},{price}\n" for item, price in prices.items())
    return Records(rules=_INVOICES, pages=tuple(pages), beside={"prices.csv": listed})


def _invoice(rng: Random, prices: dict[str, int], rows: Sequence[Sequence[object]], *, broken: bool) -> list[object]:
    """Day, item, quantity, amount; one rule is broken where it shall be, and no other."""
    how = rng.choice(("amount", "discount", "day", "double")) if broken else ""
    if how == "double":
        return list(rng.choice(rows))
    while True:
        day, item, quantity = rng.randint(1, 30), rng.choice(list(prices)), rng.randint(2, 19)
        if how == "discount":
            quantity = rng.randint(8, 12)
        if [day, item, quantity] not in [row[:3] for row in rows]:
            break
    full = quantity * prices[item]
    amount = full - full // 10 if (quantity >= 10) != (how == "discount") else full
    if how == "amount":
        amount += rng.choice((-10, -1, 1, 9))
    return [rng.choice((0, 31)) if how == "day" else day, item, quantity, amount]

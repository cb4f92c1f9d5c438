"""What the owner wants to know."""

from .ledger import balances
from .money import spell
from .stock import merge, order


def best(sold: list[dict[str, int]], count: int) -> list[str]:
    """The items that sold most, as many as wanted; of equal ones the first by name comes first."""
    total = merge(sold)
    return sorted(total, key=lambda item: (-total[item], item))[:count]


def debts(entries: list[list]) -> list[str]:
    """A line like "Ann owes 0.80" for each customer who owes something, the largest debt first, equal ones by name."""
    owed = {customer: amount for customer, amount in balances(entries).items() if amount > 0}
    ranked = sorted(owed, key=lambda customer: (-owed[customer], customer))
    return [f"{customer} owes {spell(owed[customer])}" for customer in ranked]


def shopping(stocks: list[dict[str, int]], levels: dict[str, int]) -> list[str]:
    """What all depots together have to order, a line like "24 bolt" an item, in alphabetical order."""
    orders = order(merge(stocks), levels)
    return [f"{orders[item]} {item}" for item in sorted(orders)]

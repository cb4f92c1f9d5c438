"""What lies in the depot: item → quantity."""

from .settings import BATCH


def reserve(stock: dict[str, int], wanted: dict[str, int]) -> list[dict[str, int]]:
    """Two stocks: what is taken of each wanted item, 0 included, and what is missing, without items of which nothing is."""
    taken = {item: min(count, stock.get(item, 0)) for item, count in wanted.items()}
    missing = {item: count - taken[item] for item, count in wanted.items() if count > taken[item]}
    return [taken, missing]


def merge(stocks: list[dict[str, int]]) -> dict[str, int]:
    """All stocks as one, items in alphabetical order, without those of which there is none."""
    total: dict[str, int] = {}
    for stock in stocks:
        for item, count in stock.items():
            total[item] = total.get(item, 0) + count
    return {item: total[item] for item in sorted(total) if total[item] > 0}


def order(stock: dict[str, int], levels: dict[str, int]) -> dict[str, int]:
    """What to order so that each item comes to its level at least, in whole batches; items that need none are left out."""
    orders: dict[str, int] = {}
    for item, level in levels.items():
        short = level - stock.get(item, 0)
        if short > 0:
            orders[item] = (short + BATCH - 1) // BATCH * BATCH
    return orders

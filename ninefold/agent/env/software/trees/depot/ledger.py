"""Who owes what: entries of customer, day and amount; a payment is a negative amount."""

from .money import split


def balances(entries: list[list]) -> dict[str, int]:
    """Customer → the sum of the amounts, without those who are even, in alphabetical order."""
    sums: dict[str, int] = {}
    for customer, _, amount in entries:
        sums[customer] = sums.get(customer, 0) + amount
    return {customer: sums[customer] for customer in sorted(sums) if sums[customer] != 0}


def overdue(entries: list[list], day: int, grace: int) -> list[str]:
    """Customers who owe more at a day than they ordered within the `grace` days before it, in alphabetical order."""
    recent: dict[str, int] = {}
    for customer, when, amount in entries:
        if day - grace < when <= day and amount > 0:
            recent[customer] = recent.get(customer, 0) + amount
    owed = balances([entry for entry in entries if entry[1] <= day])
    return [customer for customer in owed if owed[customer] > recent.get(customer, 0)]


def rates(entries: list[list], count: int) -> dict[str, list[int]]:
    """Each customer's debt in so many parts; whoever owes nothing is left out."""
    return {customer: split(sum_, count) for customer, sum_ in balances(entries).items() if sum_ > 0}

"""Prices of quantities."""

from .money import share
from .settings import TIERS


def discount(quantity: int) -> int:
    """Percent off: of the last tier that the quantity reaches, 0 below the first."""
    percent = 0
    for least, off in TIERS:
        if quantity >= least:
            percent = off
    return percent


def line(quantity: int, price: int) -> int:
    """So many pieces at a price each, less the discount."""
    full = quantity * price
    return full - share(full, discount(quantity))

"""What is bought together: lines of quantity and price."""

from .money import share
from .pricing import line
from .settings import FREE_FROM, POSTAGE, TAX


def goods(lines: list[list[int]]) -> int:
    """All lines, without postage and tax."""
    return sum(line(quantity, price) for quantity, price in lines)


def postage(lines: list[list[int]]) -> int:
    """POSTAGE, but nothing for an empty cart, or where the goods come to FREE_FROM at least."""
    if not lines or goods(lines) >= FREE_FROM:
        return 0
    return POSTAGE


def total(lines: list[list[int]]) -> int:
    """Goods and postage, and the tax on both."""
    net = goods(lines) + postage(lines)
    return net + share(net, TAX)

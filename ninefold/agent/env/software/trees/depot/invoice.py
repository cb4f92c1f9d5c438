"""Invoices as lines of text."""

from .cart import goods, postage, total
from .days import after, name
from .money import spell
from .pricing import discount, line
from .settings import GRACE


def rows(lines: list[list[int]]) -> list[str]:
    """A row a line, like "12 x 3.00 -5% = 34.20"; the discount is left out where there is none."""
    made: list[str] = []
    for quantity, price in lines:
        off = f" -{discount(quantity)}%" if discount(quantity) else ""
        made.append(f"{quantity} x {spell(price)}{off} = {spell(line(quantity, price))}")
    return made


def due(day: int, closed: list[int]) -> str:
    """When an invoice of a day is due, GRACE working days later: weekday and day, like "Tue 15"."""
    last = after(day, GRACE, closed)
    return f"{name(last)} {last}"


def render(day: int, lines: list[list[int]], closed: list[int]) -> list[str]:
    """The whole invoice: rows, "goods 34.20", "postage 4.90" where there is any, "total 46.53", "due Tue 15"."""
    sent = [f"postage {spell(postage(lines))}"] if postage(lines) else []
    return [*rows(lines), f"goods {spell(goods(lines))}", *sent, f"total {spell(total(lines))}", f"due {due(day, closed)}"]

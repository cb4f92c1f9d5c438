"""What a cell of a workbook may hold, and how one kind stands for another."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal

Scalar = float | str | bool | None
"""A number (dates are day numbers), text, a truth value, or nothing."""
Array = list[list[Scalar]]
"""Rows of equal length."""
Value = Scalar | Array

LARGEST = 1e15
"""Numbers beyond it are no figures of a report."""


class Fault(Exception):
    """A formula has no value, as #DIV/0! says."""


def number(value: Value) -> float:
    """A value where a number is wanted. Raises Fault for text that is none."""
    value = single(value)
    if value is None:
        return 0.0
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise Fault("#VALUE!") from None
    if not abs(value) < LARGEST:  # which no NaN is
        raise Fault("#NUM!")
    return float(value)


def text(value: Value) -> str:
    """A value where text is wanted."""
    value = single(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    return f"{value:.15g}" if isinstance(value, int | float) else value


def joined(*values: Value) -> str:
    """Texts one behind the other. Raises Fault where they are more than a cell holds: doubled often enough, any text is."""
    found = "".join(map(text, values))
    if len(found) > 32_767:
        raise Fault("#VALUE!")
    return found


def truth(value: Value) -> bool:
    """A value where a condition is wanted."""
    value = single(value)
    if isinstance(value, str):
        if value.upper() not in ("TRUE", "FALSE"):
            raise Fault("#VALUE!")
        return value.upper() == "TRUE"
    return bool(value)


def single(value: Value) -> Scalar:
    """The one item of an array of one; other arrays are no scalar."""
    if isinstance(value, list):
        if len(value) != 1 or len(value[0]) != 1:
            raise Fault("#VALUE!")
        return value[0][0]
    return value


def grid(value: Value) -> Array:
    """A value as an array."""
    return value if isinstance(value, list) else [[value]]


def items(value: Value) -> Iterator[Scalar]:
    """Every item, row by row."""
    if isinstance(value, list):
        for row in value:
            yield from row
    else:
        yield value


def rounded(value: float, digits: int = 0) -> float:
    """Half away from zero, as Excel's ROUND: what a float misses by its last places is no reason to go down."""
    exact = Decimal(repr(round(value, 9))) if abs(value) < 1e6 else Decimal(f"{value:.15g}")
    return float(exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))

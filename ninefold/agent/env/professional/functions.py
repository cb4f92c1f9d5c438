"""Excel's functions, as far as tasks allow them: values in, a value out. What is not here has no value (#NAME?)."""

from __future__ import annotations

import math
import re
import statistics
from calendar import monthrange
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from fnmatch import fnmatchcase

from ninefold.agent.env.professional.values import (
    Fault,
    Scalar,
    Value,
    grid,
    items,
    joined,
    number,
    rounded,
    single,
    text,
    truth,
)

_DAY_0 = date(1899, 12, 30)
"""Day 0 of the 1900 date system, for days from March 1900 on."""


def day(value: Value) -> date:
    """A day number as a date."""
    days = int(number(value))
    if not 61 <= days <= 2_958_465:
        raise Fault("#NUM!")
    return _DAY_0 + timedelta(days=days)


def serial(day: date) -> float:
    """A date as a day number."""
    return float((day - _DAY_0).days)


def compare(operator: str, left: Scalar, right: Scalar) -> bool:
    """Numbers before text before truth values; text without regard to case; nothing is whatever it is compared with."""
    first, second = _rank(left, right), _rank(right, left)
    order = (first > second) - (first < second)
    return {"=": order == 0, "<>": order != 0, "<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[operator]


def _rank(value: Scalar, other: Scalar) -> tuple[int, float, str]:
    if value is None:
        value = "" if isinstance(other, str) else False if isinstance(other, bool) else 0.0
    if isinstance(value, bool):
        return 2, float(value), ""
    if isinstance(value, str):
        return 1, 0.0, value.casefold()
    return 0, float(value), ""


def _numbers(*values: Value) -> list[float]:
    """Numbers among the items of arrays, and every other argument as a number."""
    found: list[float] = []
    for value in values:
        if isinstance(value, list):
            found += [float(x) for x in items(value) if isinstance(x, int | float) and not isinstance(x, bool)]
        else:
            found.append(number(value))
    return found


def _some(*values: Value) -> list[float]:
    found = _numbers(*values)
    if not found:
        raise Fault("#NUM!")
    return found


def _average(*values: Value) -> float:
    found = _numbers(*values)
    if not found:
        raise Fault("#DIV/0!")
    return math.fsum(found) / len(found)


def _nth(values: Value, place: Value, *, largest: bool) -> float:
    found = sorted(_numbers(values), reverse=largest)
    at = int(number(place))
    if not 1 <= at <= len(found):
        raise Fault("#NUM!")
    return found[at - 1]


def _meets(value: Scalar, wanted: Scalar) -> bool:
    """Whether a cell meets a criterion such as 5, "tea", "te*" or ">=3"."""
    if not isinstance(wanted, str):
        return not isinstance(value, str) and value is not None and compare("=", value, 0.0 if wanted is None else wanted)
    found = re.match(r"<=|>=|<>|<|>|=", wanted)
    operator = found[0] if found else "="
    than = wanted[len(found[0]) if found else 0 :]
    try:
        size = float(than)
    except ValueError:
        if operator in ("=", "<>"):
            fits = isinstance(value, str) and fnmatchcase(value.casefold(), than.casefold().replace("[", "[[]"))
            fits = fits or (value is None and not than)
            return fits == (operator == "=")
        return isinstance(value, str) and compare(operator, value, than)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return compare(operator, value, size) if is_number else operator == "<>"


def _chosen(*pairs: Value) -> list[bool]:
    """Which items meet every criterion: range, criterion, range, criterion, …"""
    if not pairs or len(pairs) % 2:
        raise Fault("#VALUE!")
    columns = [list(items(of)) for of in pairs[::2]]
    if len({len(column) for column in columns}) != 1:
        raise Fault("#VALUE!")
    wanted = [single(criterion) for criterion in pairs[1::2]]
    return [all(map(_meets, row, wanted)) for row in zip(*columns, strict=True)]


def _sums(values: Value, *pairs: Value) -> list[float]:
    chosen, summed = _chosen(*pairs), list(items(values))
    if len(chosen) != len(summed):
        raise Fault("#VALUE!")
    return _numbers([[x for x, taken in zip(summed, chosen, strict=True) if taken]])


def _sumif(of: Value, criterion: Value, values: Value = None) -> float:
    return math.fsum(_sums(of if values is None else values, of, criterion))


def _sumproduct(*arrays: Value) -> float:
    columns = [[float(x) if isinstance(x, int | float) else 0.0 for x in items(array)] for array in arrays]
    if len({len(column) for column in columns}) != 1:
        raise Fault("#VALUE!")
    return math.fsum(map(math.prod, zip(*columns, strict=True)))


def _index(of: Value, row: Value = None, column: Value = None) -> Value:
    rows = grid(of)
    down, along = int(number(row)), int(number(column))
    if column is None and len(rows) == 1:
        down, along = 1, down
    if not (0 <= down <= len(rows) and 0 <= along <= len(rows[0])):
        raise Fault("#REF!")
    chosen = rows if down == 0 else [rows[down - 1]]
    return chosen if along == 0 and len(rows[0]) > 1 else [[line[max(along, 1) - 1]] for line in chosen]


def _match(wanted: Value, of: Value, kind: Value = 1.0) -> float:
    value, found, how = single(wanted), list(items(of)), number(kind)
    if how == 0:
        pattern = value if isinstance(value, str) else None
        hits = [n for n, x in enumerate(found, 1) if (_meets(x, pattern) if pattern else compare("=", x, value))]
        hits = hits[:1]
    else:
        hits = [n for n, x in enumerate(found, 1) if x is not None and compare("<=" if how > 0 else ">=", x, value)][-1:]
    if not hits:
        raise Fault("#N/A")
    return float(hits[0])


def _vlookup(wanted: Value, table: Value, column: Value, near: Value = True) -> Scalar:
    rows, along = grid(table), int(number(column))
    if not 1 <= along <= len(rows[0]):
        raise Fault("#REF!")
    at = _match(wanted, [[row[0]] for row in rows], 1.0 if truth(near) else 0.0)
    return rows[int(at) - 1][along - 1]


def _hlookup(wanted: Value, table: Value, row: Value, near: Value = True) -> Scalar:
    return _vlookup(wanted, [list(column) for column in zip(*grid(table), strict=True)], row, near)


def _xlookup(wanted: Value, of: Value, values: Value, otherwise: Value = None) -> Scalar:
    found, returned = list(items(of)), list(items(values))
    hit = next((n for n, x in enumerate(found) if compare("=", x, single(wanted))), None)
    if (hit is None and otherwise is None) or len(found) != len(returned):
        raise Fault("#N/A")
    return single(otherwise) if hit is None else returned[hit]


def _payment(rate: Value, periods: Value, present: Value, future: Value = 0.0, due: Value = 0.0) -> float:
    r, n, pv, fv, at = map(number, (rate, periods, present, future, due))
    if n < 1:
        raise Fault("#NUM!")
    if r == 0:
        return -(pv + fv) / n
    growth = (1 + r) ** n
    return -(pv * growth + fv) * r / ((growth - 1) * (1 + r * at))


def _future(rate: Value, periods: Value, payment: Value, present: Value = 0.0) -> float:
    r, n, paid, pv = map(number, (rate, periods, payment, present))
    growth = (1 + r) ** n
    return -(pv * growth + (paid * (growth - 1) / r if r else paid * n))


def _interest(rate: Value, period: Value, periods: Value, present: Value) -> float:
    before = _future(rate, number(period) - 1, _payment(rate, periods, present), present)
    return number(rate) * before


def _principal(rate: Value, period: Value, periods: Value, present: Value) -> float:
    return _payment(rate, periods, present) - _interest(rate, period, periods, present)


def _net_present(rate: Value, *flows: Value) -> float:
    r = number(rate)
    return math.fsum(flow / (1 + r) ** n for n, flow in enumerate(_numbers(*flows), 1))


def _date(year: Value, month: Value, dom: Value) -> float:
    years, months = divmod(int(number(month)) - 1, 12)
    at = int(number(year)) + years
    if not 1900 <= at <= 9999:
        raise Fault("#NUM!")
    return serial(date(at, months + 1, 1)) + int(number(dom)) - 1


def months_on(start: date, months: int) -> date:
    """The same day so many months on, or the last of that month."""
    years, month = divmod(start.month - 1 + months, 12)
    year = start.year + years
    if not 1900 <= year <= 9998:
        raise Fault("#NUM!")
    return date(year, month + 1, min(start.day, monthrange(year, month + 1)[1]))


def _month_end(start: Value, months: Value) -> float:
    at = months_on(day(start).replace(day=1), int(number(months)))
    return serial(at.replace(day=monthrange(at.year, at.month)[1]))


def _weekday(of: Value, kind: Value = 1.0) -> float:
    days = day(of).weekday()
    how = int(number(kind))
    if how not in (1, 2, 3):
        raise Fault("#NUM!")
    return float({1: (days + 1) % 7 + 1, 2: days + 1, 3: days}[how])


def _workday(start: Value, days: Value, holidays: Value = None) -> float:
    at, left, free = day(start), int(number(days)), {int(x) for x in _numbers(holidays) if x}
    step = timedelta(days=1 if left > 0 else -1)
    if abs(left) > 1_000:
        raise Fault("#NUM!")
    while left:
        at += step
        if at.weekday() < 5 and serial(at) not in free:
            left -= 1 if left > 0 else -1
    return serial(at)


def _networkdays(start: Value, end: Value, holidays: Value = None) -> float:
    first, last, free = day(start), day(end), {int(x) for x in _numbers(holidays) if x}
    sign = 1 if first <= last else -1
    first, last = min(first, last), max(first, last)
    if (last - first).days > 2_000:
        raise Fault("#NUM!")
    days = (first + timedelta(days=n) for n in range((last - first).days + 1))
    return float(sign * sum(at.weekday() < 5 and serial(at) not in free for at in days))


def _power(base: Value, exponent: Value) -> float:
    b, e = number(base), number(exponent)
    try:
        found = b**e
    except (OverflowError, ZeroDivisionError):
        raise Fault("#NUM!") from None
    if isinstance(found, complex):
        raise Fault("#NUM!")
    return found


def _mod(value: Value, by: Value) -> float:
    if not number(by):
        raise Fault("#DIV/0!")
    return number(value) % number(by)


def _away(value: Value, digits: Value, *, up: bool) -> float:
    scale = 10.0 ** int(number(digits))
    size = round(abs(number(value)) * scale, 9)
    return math.copysign((math.ceil if up else math.floor)(size) / scale, number(value))


def _mid(of: Value, start: Value, count: Value) -> str:
    first = int(number(start)) - 1
    return text(of)[first : first + int(number(count))]


def _logarithm(value: Value) -> float:
    if number(value) <= 0:
        raise Fault("#NUM!")
    return math.log(number(value))


def _is_number(value: Value) -> bool:
    return isinstance(single(value), int | float) and not isinstance(single(value), bool)


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "SUM": lambda *v: math.fsum(_numbers(*v)),
    "AVERAGE": _average,
    "MIN": lambda *v: min(_numbers(*v), default=0.0),
    "MAX": lambda *v: max(_numbers(*v), default=0.0),
    "COUNT": lambda *v: float(len(_numbers(*v))),
    "COUNTA": lambda *v: float(sum(x is not None for of in v for x in items(of))),
    "MEDIAN": lambda *v: statistics.median(_some(*v)),
    "LARGE": lambda of, n: _nth(of, n, largest=True),
    "SMALL": lambda of, n: _nth(of, n, largest=False),
    "SUMIF": _sumif,
    "SUMIFS": lambda of, *pairs: math.fsum(_sums(of, *pairs)),
    "COUNTIF": lambda *pairs: float(sum(_chosen(*pairs))),
    "COUNTIFS": lambda *pairs: float(sum(_chosen(*pairs))),
    "AVERAGEIFS": lambda of, *pairs: _average([list[Scalar](_sums(of, *pairs))]),
    "SUMPRODUCT": _sumproduct,
    "ROUND": lambda x, n=0.0: rounded(number(x), int(number(n))),
    "ROUNDUP": lambda x, n=0.0: _away(x, n, up=True),
    "ROUNDDOWN": lambda x, n=0.0: _away(x, n, up=False),
    "ABS": lambda x: abs(number(x)),
    "INT": lambda x: float(math.floor(number(x))),
    "SIGN": lambda x: float((number(x) > 0) - (number(x) < 0)),
    "MOD": _mod,
    "POWER": _power,
    "SQRT": lambda x: _power(x, 0.5),
    "EXP": lambda x: _power(math.e, x),
    "LN": _logarithm,
    "INDEX": _index,
    "MATCH": _match,
    "VLOOKUP": _vlookup,
    "HLOOKUP": _hlookup,
    "XLOOKUP": _xlookup,
    "PMT": _payment,
    "FV": _future,
    "IPMT": _interest,
    "PPMT": _principal,
    "NPV": _net_present,
    "DATE": _date,
    "YEAR": lambda x: float(day(x).year),
    "MONTH": lambda x: float(day(x).month),
    "DAY": lambda x: float(day(x).day),
    "EDATE": lambda x, n: serial(months_on(day(x), int(number(n)))),
    "EOMONTH": _month_end,
    "WEEKDAY": _weekday,
    "WORKDAY": _workday,
    "NETWORKDAYS": _networkdays,
    "NOT": lambda x: not truth(x),
    "ISNUMBER": _is_number,
    "ISBLANK": lambda x: single(x) is None,
    "ROWS": lambda of: float(len(grid(of))),
    "COLUMNS": lambda of: float(len(grid(of)[0])),
    "LEN": lambda x: float(len(text(x))),
    "LEFT": lambda x, n=1.0: text(x)[: max(0, int(number(n)))],
    "RIGHT": lambda x, n=1.0: text(x)[-max(0, int(number(n))) :] if int(number(n)) > 0 else "",
    "MID": _mid,
    "TRIM": lambda x: " ".join(text(x).split()),
    "UPPER": lambda x: text(x).upper(),
    "LOWER": lambda x: text(x).lower(),
    "VALUE": lambda x: number(text(x)),
    "CONCATENATE": joined,
    "CONCAT": lambda *v: joined(*(x for of in v for x in items(of))),
    "TRUE": lambda: True,
    "FALSE": lambda: False,
    "NA": lambda: _raise("#N/A"),
}
"""By name."""


def _raise(code: str) -> Value:
    raise Fault(code)

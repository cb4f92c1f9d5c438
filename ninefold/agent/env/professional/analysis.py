"""Data analysis: orders of several months, in several hands' formats, brought into one table or report."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from csv import DictReader
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from random import Random

from ninefold.agent.env.names import GOODS, NAMES
from ninefold.agent.env.professional.case import Book, Case, Content, Spec, csv, model, numbers, table
from ninefold.agent.env.professional.papers import Cell, column

REGIONS = ("North", "South", "East", "West")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
FOREIGN = ("USD", "GBP", "CHF")
CLOSING = date(2024, 12, 31)
_CENT = Decimal("0.01")
_Sums = dict[str, dict[str, Decimal]]
"""Region → currency → amount."""
_CREDIT = re.compile(r"order (\d+) is credited (\d+\.\d\d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How hard a case is."""

    months: int
    orders: int
    """Of a month."""
    currencies: int
    """Beside the euro."""
    dirty: bool
    """Whether orders stand twice, are cancelled, or lie outside of the file's month, and dates are written in several ways."""
    comma: bool
    """Whether some files have semicolons and decimal commas, and names are spelled in several ways."""
    credits: int
    """Letters that take back a part of an order."""
    report: bool
    """Whether a workbook with live formulas is asked for."""


SHAPES: Mapping[int, Shape] = {
    1: Shape(months=1, orders=6, currencies=0, dirty=False, comma=False, credits=0, report=False),
    2: Shape(months=1, orders=12, currencies=1, dirty=True, comma=False, credits=0, report=False),
    3: Shape(months=4, orders=10, currencies=2, dirty=True, comma=True, credits=0, report=True),
    4: Shape(months=12, orders=10, currencies=3, dirty=True, comma=True, credits=5, report=True),
}

_ASKED = {
    1: "Join orders/*.csv with customers.csv: the sum of quantity × price of each region. Write it to totals.csv with the "
    "columns region,total .",
    2: "Read conventions.md. Write totals.csv (region,total; in euros, rounded to cents at the end) and dropped.csv "
    "(file,line,reason) for the orders in orders/.",
    3: "Read conventions.md. Write report.xlsx and dropped.csv (file,line,reason) for the orders in orders/.",
    4: "Read conventions.md. Write report.xlsx and dropped.csv (file,line,reason) for the orders in orders/ and the letters in "
    "credits/.",
}

_CONVENTIONS = """# Conventions
- A customer's region is that of customers.csv. Names are compared without regard to case and outer spaces.
- A line counts unless it is left out for one of these reasons, the first that holds:
  `cancelled` (its status), `duplicate` (an order number that stood on an earlier line that is not cancelled; files by name,
  then by line), `period` (its date is not in the month that the file is named after).
- Dates are written 2024-03-05, 05.03.2024 (day first) or Mar 5, 2024.
- dropped.csv names each line that is left out: file (as orders/2024-01.csv), line (the header is line 1), reason.
- A negative quantity is a return; it counts.
- rates.csv: euros for one unit. What counts is the last rate on or before {closing}, the closing date, that is not marked
  `preliminary`.
"""
_COMMAS = "- Files with semicolons have decimal commas.\n"
_LETTERS = (
    "- A letter in credits/ takes its amount off the order that it names, in that order's currency, if the order counts.\n"
)
_REPORT = """- report.xlsx has three sheets, each a table from A1 on. `Rates`: header row `Currency`, `Rate`; a row for EUR,
  which is 1, and for each currency of rates.csv. `Sales`: header row `Region` and the currencies; a row for each region with
  the summed amounts in each currency (0 where there is none). `Report`: header row `Region`, `EUR`, `Share`; a row for each
  region, in euros and as a share of the whole. EUR and Share are formulas over the other two sheets, not rounded: when a rate
  or an amount changes, they change.
- Nothing is hidden, nothing links to other files. Inputs are left as they are.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One line of a file."""

    file: str
    number: int
    day: date
    customer: str
    quantity: int
    price: Decimal
    currency: str
    status: str

    @property
    def amount(self) -> Decimal:
        return self.quantity * self.price


def draw(rng: Random, level: int) -> Case:
    """A case and what is right, from the records rather than from the files."""
    shape = SHAPES[level]
    regions = REGIONS[: 2 if level == 1 else len(REGIONS)]
    customers = {name: rng.choice(regions) for name in rng.sample(NAMES, 4 if level == 1 else 8)}
    for name, region in zip(customers, regions):  # each region has one, so that none is empty by chance
        customers[name] = region
    currencies: tuple[str, ...] = ("EUR", *rng.sample(FOREIGN, shape.currencies))
    orders = list(_orders(rng, shape, list(customers), currencies))
    reasons = _reasons(orders)
    counted = [order for number, order in enumerate(orders) if number not in reasons]
    rates, rate_rows = _rates(rng, currencies)
    credited = _credits(rng, shape, counted)
    sums: _Sums = {region: dict.fromkeys(currencies, Decimal(0)) for region in dict.fromkeys(customers.values())}
    for order in counted:
        sums[customers[order.customer]][order.currency] += order.amount - credited.get(order.number, Decimal(0))
    files = {"customers.csv": csv(("customer", "region"), list(customers.items()))}
    files |= _written(rng, shape, orders)
    if level > 1:
        files["rates.csv"] = csv(("date", "currency", "rate", "status"), rate_rows)
        text = _CONVENTIONS.format(closing=CLOSING) + (_COMMAS if shape.comma else "")
        files["conventions.md"] = text + (_LETTERS if shape.credits else "") + (_REPORT if shape.report else "")
    wanted = [_wanted(shape, sums, rates)]
    if level > 1:
        dropped = [(orders[n].file, str(_line(orders, n)), reason) for n, reason in reasons.items()]
        wanted.append(table("dropped.csv", ("file", "line", "reason"), 2, dropped))
    return Case(
        instruction=_ASKED[level],
        key=f"analysis/{level}/{sorted((order.number, str(order.amount)) for order in orders)}",
        files=files,
        papers=_letters(credited, rng),
        wanted=tuple(wanted),
    )


def _orders(rng: Random, shape: Shape, customers: list[str], currencies: Sequence[str]) -> Iterator[Order]:
    seen: list[Order] = []
    number = rng.randint(100, 900)
    for month in range(1, shape.months + 1):
        file = f"orders/2024-{month:02}.csv"
        for _ in range(shape.orders):
            number += rng.randint(1, 3)
            quantity = rng.randint(1, 9) * (-1 if shape.dirty and rng.random() < 0.1 else 1)
            price = Decimal(rng.randint(100, 9_999)) / 100 if shape.dirty else Decimal(rng.randint(2, 40))
            order = Order(
                file=file,
                number=number,
                day=date(2024, month, rng.randint(1, 28)),
                customer=rng.choice(customers),
                quantity=quantity,
                price=price,
                currency=rng.choice(currencies),
                status="cancelled" if shape.dirty and rng.random() < 0.1 else "ok",
            )
            chance = rng.random() if shape.dirty else 1.0
            if chance < 0.12:
                out = order.day + timedelta(days=rng.choice((-40, 40)))
                order = replace(order, day=out)
            elif chance < 0.27 and seen:
                order = replace(rng.choice(seen), file=file, day=order.day)
            seen.append(order)
            yield order


def _reasons(orders: Sequence[Order]) -> dict[int, str]:
    """Place → why it is left out."""
    found: dict[int, str] = {}
    numbers_seen: set[int] = set()
    for place, order in enumerate(orders):
        if order.status == "cancelled":
            found[place] = "cancelled"
            continue
        if order.number in numbers_seen:
            found[place] = "duplicate"
        elif f"{order.day:%Y-%m}" not in order.file:
            found[place] = "period"
        numbers_seen.add(order.number)
    return found


def _line(orders: Sequence[Order], place: int) -> int:
    return 2 + sum(order.file == orders[place].file for order in orders[:place])


def _rates(rng: Random, currencies: Sequence[str]) -> tuple[dict[str, str], list[tuple[str, ...]]]:
    """Currency → the rate that counts, as written; and all rows of the file."""
    counting, rows = {"EUR": "1"}, list[tuple[str, ...]]()
    for currency in currencies[1:]:
        base = rng.randint(8_000, 12_999)
        for back, status in ((-2, "final"), (0, "preliminary"), (rng.randint(1, 3), "final"), (9, "final"), (30, "final")):
            rate = f"{(base + rng.randint(-300, 300)) / 10_000:.4f}"
            rows.append((str(CLOSING - timedelta(days=back)), currency, rate, status))
            if 0 < back < 9:
                counting[currency] = rate
    rng.shuffle(rows)
    return counting, rows


def _credits(rng: Random, shape: Shape, counted: Sequence[Order]) -> dict[int, Decimal]:
    large = [order for order in counted if order.amount > 20]
    chosen = rng.sample(large, min(shape.credits, len(large)))
    return {order.number: Decimal(rng.randint(100, 1_999)) / 100 for order in chosen}


def _letters(credited: Mapping[int, Decimal], rng: Random) -> dict[str, Spec]:
    return {
        f"credits/{rng.randint(10, 99)}-{n}.docx": [
            "Credit note",
            f"Dear {rng.choice(NAMES)}, we are sorry about the {rng.choice(GOODS)}.",
            f"Your order {number} is credited {amount:.2f} in the currency of the order.",
        ]
        for n, (number, amount) in enumerate(credited.items(), 1)
    }


def _written(rng: Random, shape: Shape, orders: Sequence[Order]) -> dict[str, str]:
    """The files, each in a hand of its own."""
    columns = ("order", "date", "customer", "quantity", "price", *(("currency", "status") if shape.dirty else ()))
    files: dict[str, str] = {}
    for number, file in enumerate(dict.fromkeys(order.file for order in orders)):
        comma = shape.comma and number % 3 == 1
        rows = [_row(rng, shape, order, comma=comma) for order in orders if order.file == file]
        files[file] = csv(columns, rows, ";" if comma else ",")
    return files


def _row(rng: Random, shape: Shape, order: Order, *, comma: bool) -> list[str]:
    ways = [str(order.day), f"{order.day:%d.%m.%Y}"] if shape.dirty else [str(order.day)]
    if comma:
        ways.append(f"{MONTHS[order.day.month - 1]} {order.day.day}, {order.day.year}")
    name = rng.choice((order.customer, order.customer.upper(), f" {order.customer} ")) if shape.comma else order.customer
    price = f"{order.price:.2f}" if shape.dirty else str(order.price)
    rest = (order.currency, order.status) if shape.dirty else ()
    return [str(order.number), rng.choice(ways), name, str(order.quantity), price.replace(".", "," if comma else "."), *rest]


def _wanted(shape: Shape, sums: Mapping[str, Mapping[str, Decimal]], rates: Mapping[str, str]) -> dict[str, object]:
    if shape.report:
        book = _book(sums, rates)
        outputs = [f"Report/{region}/{header}" for region in sums for header in ("EUR", "Share")]
        return model(
            "report.xlsx", "sales", numbers({k: v for k, v in book.items() if k != "Report"}), outputs, ["Rates/EUR/Rate"]
        )
    rows = [(region, str(_euros(amounts, rates))) for region, amounts in sums.items()]
    return table("totals.csv", ("region", "total"), 1, rows)


def _euros(amounts: Mapping[str, Decimal], rates: Mapping[str, str]) -> Decimal:
    return sum((amount * Decimal(rates[c]) for c, amount in amounts.items()), Decimal(0)).quantize(_CENT, ROUND_HALF_UP)


def _book(sums: Mapping[str, Mapping[str, Decimal]], rates: Mapping[str, str]) -> Book:
    """The workbook that is asked for."""
    currencies = list(rates)
    report: list[list[Cell]] = []
    for row, region in enumerate(sums, 2):
        parts = [f"Sales!{column(place)}{row}*Rates!$B${place}" for place in range(2, len(currencies) + 2)]
        report.append([region, "=" + "+".join(parts), f"=B{row}/SUM(B$2:B${len(sums) + 1})"])
    return {
        "Rates": [["Currency", "Rate"], *([c, float(rates[c])] for c in currencies)],
        "Sales": [["Region", *currencies], *([region, *(float(a[c]) for c in currencies)] for region, a in sums.items())],
        "Report": [["Region", "EUR", "Share"], *report],
    }


def solve(shown: Mapping[str, str], level: int, care: int) -> dict[str, Content]:
    """Level 1 needs no care. Without much of it doubles and preliminary rates are overlooked, with some of it months and
    letters."""
    regions = {row["customer"]: row["region"] for row in _records(shown["customers.csv"])}
    orders = [order for file in sorted(shown) if file.startswith("orders/") for order in _read(file, shown[file])]
    reasons = _reasons(orders) if level > 1 else {}
    heeded = ("cancelled", "duplicate", "period")[: care + 1]
    reasons = {place: reason for place, reason in reasons.items() if reason in heeded}
    rates = _read_rates(shown.get("rates.csv", ""), care)
    letters = [_CREDIT.search(text) for path, text in sorted(shown.items()) if path.startswith("credits/") and care > 1]
    credited = {int(found[1]): Decimal(found[2]) for found in letters if found}
    sums = {region: dict.fromkeys(rates, Decimal(0)) for region in dict.fromkeys(regions.values())}
    for place, order in enumerate(orders):
        if place not in reasons:
            sums[regions[order.customer]][order.currency] += order.amount - credited.pop(order.number, Decimal(0))
    if level > 2:
        done: dict[str, Content] = {"report.xlsx": _book(sums, rates)}
    else:
        rows = [(region, _euros(amounts, rates) if level > 1 else sum(amounts.values())) for region, amounts in sums.items()]
        done = {"totals.csv": csv(("region", "total"), rows)}
    if level > 1:
        dropped = [(orders[place].file, _line(orders, place), reason) for place, reason in reasons.items()]
        done["dropped.csv"] = csv(("file", "line", "reason"), dropped)
    return done


def _records(text: str) -> list[dict[str, str]]:
    lines = text.strip().splitlines()
    return list(DictReader(lines, delimiter=";" if ";" in lines[0] else ","))


def _read(file: str, text: str) -> Iterator[Order]:
    for row in _records(text):
        yield Order(
            file=file,
            number=int(row["order"]),
            day=_day(row["date"]),
            customer=row["customer"].strip().capitalize(),
            quantity=int(row["quantity"]),
            price=Decimal(row["price"].replace(",", ".")),
            currency=row.get("currency", "EUR"),
            status=row.get("status", "ok"),
        )


def _day(text: str) -> date:
    if "." in text:
        day, month, year = map(int, text.split("."))
    elif " " in text:
        name, day, year = text[:3], int(text[4:].split(",")[0]), int(text[-4:])
        month = MONTHS.index(name) + 1
    else:
        year, month, day = map(int, text.split("-"))
    return date(year, month, day)


def _read_rates(text: str, care: int) -> dict[str, str]:
    rates = {"EUR": "1"}
    for row in sorted(_records(text), key=lambda row: row["date"]) if text else []:
        if date.fromisoformat(row["date"]) <= CLOSING and (care == 0 or row["status"] == "final"):
            rates[row["currency"]] = row["rate"]
    return rates

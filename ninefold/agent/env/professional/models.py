"""What the models that are asked for come to: each a function of its input cells, in plain Python."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from datetime import timedelta

from ninefold.agent.env.professional.case import Compute, Inputs
from ninefold.agent.env.professional.functions import day, serial

YEARS = (2025, 2026, 2027, 2028, 2029)
"""Planned."""
LOAN_LABELS = ("Principal", "Rate", "Months", "Fee")
LOAN_OUTPUTS = ("Payment", "Total interest", "Total cost", "Balance after 12")
STATEMENT_OUTPUTS = ("Revenue", "Net income", "Cash", "Assets", "Debt", "Equity")


def _of(inputs: Inputs, sheet: str) -> dict[str, float]:
    """Label → number, of a sheet with one column of numbers."""
    places = [(name.split("/"), value) for name, value in inputs.items()]
    return {place[1]: value for place, value in places if place[0] == sheet}


def _table(inputs: Inputs, sheet: str) -> dict[str, dict[str, float]]:
    """Label → header → number."""
    found: dict[str, dict[str, float]] = {}
    for name, value in inputs.items():
        at, label, header = name.split("/")
        if at == sheet:
            found.setdefault(label, {})[header] = value
    return found


def sales(inputs: Inputs) -> dict[str, float]:
    """Amounts by region and currency in euros: total, and share of the whole."""
    rates = _of(inputs, "Rates")
    totals = {
        region: sum(amount * rates[currency] for currency, amount in amounts.items())
        for region, amounts in _table(inputs, "Sales").items()
    }
    whole = sum(totals.values())
    found = {f"Report/{region}/EUR": total for region, total in totals.items()}
    return found | {f"Report/{region}/Share": total / whole for region, total in totals.items()}


def loan(inputs: Inputs) -> dict[str, float]:
    """An annuity: payment, what it costs, and what is owed after a year."""
    given = _of(inputs, "Inputs")
    principal, rate, months, fee = (given[name] for name in LOAN_LABELS)
    growth = (1 + rate / 12) ** months
    payment = principal * rate / 12 * growth / (growth - 1)
    interest = payment * months - principal
    year = (1 + rate / 12) ** 12
    owed = principal * year - payment * (year - 1) / (rate / 12)
    return {f"Report/{label}/Value": x for label, x in zip(LOAN_OUTPUTS, (payment, interest, interest + fee, owed))}


def valuation(inputs: Inputs) -> dict[str, float]:
    """Discounted cash flow of five years with a terminal value, beside the median multiple of the peers."""
    given, peers = _of(inputs, "Inputs"), _table(inputs, "Peers")
    revenue, flows = given["Revenue"], list[float]()
    for year in range(1, 6):
        revenue *= 1 + given[f"Growth {year}"]
        earned = revenue * given["EBITDA margin"]
        written_off = revenue * given["Depreciation"]
        taxes = max(0.0, earned - written_off) * given["Tax"]
        flows.append(earned - taxes - revenue * given["Capex"])
    wacc, growth = given["WACC"], given["Terminal growth"]
    terminal = flows[-1] * (1 + growth) / (wacc - growth)
    value = sum(flow / (1 + wacc) ** year for year, flow in enumerate(flows, 1)) + terminal / (1 + wacc) ** 5
    multiple = statistics.median(peer["EV"] / peer["EBITDA"] for peer in peers.values())
    by_peers = multiple * given["Revenue"] * given["EBITDA margin"]
    shares, debt = given["Shares"], given["Net debt"]
    found = {
        "Enterprise value": value,
        "Equity value": value - debt,
        "Per share": (value - debt) / shares,
        "Median multiple": multiple,
        "Peer value": by_peers,
        "Peer per share": (by_peers - debt) / shares,
    }
    return {f"Report/{label}/Value": x for label, x in found.items()}


def statements(inputs: Inputs) -> dict[str, float]:
    """Income statement, balance sheet and cash flow rolled forward from an opening balance."""
    given, plan = _of(inputs, "Inputs"), _table(inputs, "Plan")
    revenue, cash, fixed, debt, equity = (given[name] for name in ("Revenue", "Cash", "Fixed assets", "Debt", "Equity"))
    owed_to, owed_by = given["Receivables"], given["Payables"]
    found: dict[str, float] = {}
    for year in map(str, YEARS):
        revenue *= 1 + plan["Growth"][year]
        written_off = fixed * given["Depreciation"]
        before_tax = revenue * plan["Margin"][year] - written_off - debt * given["Interest"]
        income = before_tax - max(0.0, before_tax) * given["Tax"]
        invested = revenue * given["Capex"]
        to, by = revenue * given["Receivable days"] / 365, revenue * given["Payable days"] / 365
        cash += income + written_off - invested - (to - owed_to) + (by - owed_by) - plan["Repayment"][year]
        owed_to, owed_by = to, by
        fixed += invested - written_off
        debt -= plan["Repayment"][year]
        equity += income - plan["Dividend"][year]
        cash -= plan["Dividend"][year]
        stated = (revenue, income, cash, cash + owed_to + fixed, debt, equity)
        found |= {f"Report/{label}/{year}": x for label, x in zip(STATEMENT_OUTPUTS, stated)}
    return found


def deadlines(inputs: Inputs) -> dict[str, float]:
    """Last day to give notice, as a day number: so many days before the end, then back to a business day."""
    free = {int(value) for value in _of(inputs, "Holidays").values()}
    found: dict[str, float] = {}
    for contract, given in _table(inputs, "Inputs").items():
        at = day(given["End"]) - timedelta(days=int(given["Notice days"]))
        while at.weekday() > 4 or int(serial(at)) in free:
            at -= timedelta(days=1)
        found[f"Report/{contract}/Last day"] = serial(at)
    return found


MODELS: Mapping[str, Compute] = {
    "sales": sales,
    "loan": loan,
    "valuation": valuation,
    "statements": statements,
    "deadlines": deadlines,
}
"""By name."""

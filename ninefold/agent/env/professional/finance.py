"""Finance: a loan, a valuation, three statements rolled forward, a ledger reconciled with the bank."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from random import Random

from ninefold.agent.env.names import GOODS, NAMES
from ninefold.agent.env.professional.case import Book, Case, Content, Spec, csv, model, numbers, table
from ninefold.agent.env.professional.models import LOAN_LABELS, LOAN_OUTPUTS, STATEMENT_OUTPUTS, YEARS
from ninefold.agent.env.professional.papers import Cell, column
from ninefold.agent.env.professional.values import rounded

PERIODS = 3
"""Of the schedule at level 1."""
_COLUMNS = ("period", "interest", "principal", "balance")
_FORM = (
    "Each sheet is a table from A1 on. Every number of Report is a live formula over the other sheets, not rounded: when an "
    "input changes, it changes. Nothing is hidden, nothing links to other files. Inputs are left as they are.\n"
)


def draw(rng: Random, level: int) -> Case:
    """A case of the level."""
    return (_draw_schedule, _draw_loan, _draw_valuation, _draw_statements)[level - 1](rng)


def solve(shown: Mapping[str, str], level: int, care: int) -> dict[str, Content]:
    """What the files say, read with more or less care."""
    return (_solve_schedule, _solve_loan, _solve_valuation, _solve_statements)[level - 1](shown, care)


def _draw_schedule(rng: Random) -> Case:
    principal, rate, months = rng.randint(10, 99) * 100, rng.randint(3, 12), rng.choice((6, 12, 24))
    return Case(
        instruction=f"loan.csv: a loan with a rate of percent a year, paid back by equal monthly payments. Write the first "
        f"{PERIODS} periods to schedule.csv with the columns {','.join(_COLUMNS)} . The payment and each month's interest are "
        "rounded to cents.",
        key=f"finance/1/{principal}/{rate}/{months}",
        files={"loan.csv": csv(("principal", "percent", "months"), [(principal, rate, months)])},
        wanted=(table("schedule.csv", _COLUMNS, 1, _schedule(principal, rate, months)),),
    )


def _schedule(principal: int, percent: int, months: int) -> list[tuple[str, ...]]:
    monthly = percent / 1200
    payment = rounded(principal * monthly / (1 - (1 + monthly) ** -months), 2)
    balance, rows = float(principal), list[tuple[str, ...]]()
    for period in range(1, PERIODS + 1):
        interest = rounded(balance * monthly, 2)
        paid = rounded(payment - interest, 2)
        balance = rounded(balance - paid, 2)
        rows.append((str(period), f"{interest:.2f}", f"{paid:.2f}", f"{balance:.2f}"))
    return rows


def _solve_schedule(shown: Mapping[str, str], _care: int) -> dict[str, Content]:
    principal, rate, months = map(int, shown["loan.csv"].splitlines()[1].split(","))
    return {"schedule.csv": csv(_COLUMNS, _schedule(principal, rate, months))}


def _draw_loan(rng: Random) -> Case:
    principal, months, fee = rng.randint(20, 99) * 1_000, rng.choice((36, 48, 60, 84)), rng.randint(2, 9) * 100
    draft, agreed = (n / 1_000 for n in rng.sample(range(31, 89), 2))
    values: dict[str, float] = dict(zip(LOAN_LABELS, (principal, agreed, months, fee)))
    terms = (
        f"# Term sheet\nPrincipal EUR {principal:,}. Term {months} months, equal payments at the end of each month.\n"
        f"The draft of March offered {draft:.1%} a year; the parties then agreed on {agreed:.1%} a year.\n"
        f"A fee of EUR {fee} is paid at the start.\n"
    )
    rules = (
        f"# loan.xlsx\nSheet Inputs: header row Label, Value; rows {', '.join(LOAN_LABELS)} (the rate as a fraction a year). "
        f"Sheet Report: header row Label, Value; rows {', '.join(LOAN_OUTPUTS)}. The monthly rate is a twelfth of the year's; "
        "Total cost is the interest and the fee; Balance after 12 is what is owed after the twelfth payment.\n"
    )
    return Case(
        instruction="Read terms.md and rules.md and make loan.xlsx.",
        key=f"finance/2/{principal}/{months}/{fee}/{agreed}",
        files={"terms.md": terms, "rules.md": rules + _FORM},
        wanted=(_model("loan.xlsx", "loan", _loan_book(values), LOAN_OUTPUTS, ("Value",)),),
    )


def _model(path: str, name: str, book: Book, labels: Sequence[str], headers: Sequence[str]) -> dict[str, object]:
    inputs = numbers({sheet: rows for sheet, rows in book.items() if sheet != "Report"})
    return model(path, name, inputs, [f"Report/{label}/{header}" for label in labels for header in headers])


def _labelled(values: Mapping[str, Cell], header: str = "Value") -> list[list[Cell]]:
    return [["Label", header], *([label, value] for label, value in values.items())]


def _loan_book(values: Mapping[str, float]) -> Book:
    p, r, n, fee = (f"Inputs!$B${row}" for row in range(2, 6))
    payment = f"-PMT({r}/12,{n},{p})"
    formulas = (f"={payment}", f"=B2*{n}-{p}", f"=B3+{fee}", f"=-FV({r}/12,12,-B2,{p})")
    return {"Inputs": _labelled(values), "Report": _labelled(dict(zip(LOAN_OUTPUTS, formulas)))}


def _solve_loan(shown: Mapping[str, str], care: int) -> dict[str, Content]:
    text = shown["terms.md"]
    rates = re.findall(r"(\d+\.\d)% a year", text)
    principal, months, fee = (_found(rf"{before}([\d,]+)", text) for before in ("Principal EUR ", "Term ", "A fee of EUR "))
    rate = float(rates[1 if care else 0])
    return {"loan.xlsx": _loan_book(dict(zip(LOAN_LABELS, (principal, round(rate / 100, 4), months, fee))))}


def _found(pattern: str, text: str) -> float:
    """The number in the first group of the first match, 0 where there is none."""
    found = re.search(pattern, text)
    return float(found[1].replace(",", "")) if found else 0.0


_GROWTH = tuple(f"Growth {year}" for year in range(1, 6))
_VALUATION = ("Enterprise value", "Equity value", "Per share", "Median multiple", "Peer value", "Peer per share")


def _draw_valuation(rng: Random) -> Case:
    revenue = [rng.randint(80, 200)]
    revenue += [revenue[0] + rng.randint(5, 20), revenue[0] + rng.randint(25, 40)]
    values: dict[str, float] = {"Revenue": float(revenue[-1])}
    values |= {label: rng.randint(20, 120) / 1_000 for label in _GROWTH}
    rates = {"EBITDA margin": (180, 320), "Depreciation": (20, 50), "Tax": (200, 300), "Capex": (30, 70)}
    values |= {label: rng.randint(*bounds) / 1_000 for label, bounds in rates.items()}
    values |= {"WACC": rng.randint(80, 110) / 1_000, "Terminal growth": rng.randint(10, 25) / 1_000}
    values |= {"Net debt": float(rng.randint(10, 60)), "Shares": float(rng.randint(5, 20))}
    revised = rng.choice(("WACC", "Tax", "Capex"))
    first = dict(values) | {revised: round(values[revised] + 0.011, 3)}
    peers = {f"{name} SE": [float(rng.randint(100, 900)), float(rng.randint(20, 80))] for name in rng.sample(NAMES, 5)}
    return Case(
        instruction="Read rules.md and make valuation.xlsx from history.xlsx, peers.csv, assumptions.md and memo.docx.",
        key=f"finance/3/{sorted(values.items())}",
        files={
            "rules.md": _VALUATION_RULES + _FORM,
            "assumptions.md": "# Assumptions\n"
            + "".join(f"- {k}: {_percent(k, v)}\n" for k, v in first.items() if k != "Revenue"),
            "peers.csv": _peer_file(rng, peers),
        },
        papers={
            "history.xlsx": {"P&L": [["EUR m", "2022", "2023", "2024"], ["Revenue", *map(float, revenue)]]},
            "memo.docx": [
                "Memo",
                f"The board has met on the assumptions. {rng.choice(NAMES)} had asked for more {rng.choice(GOODS)}.",
                f"{revised} is now {values[revised]:.1%}. All else stands.",
            ],
        },
        wanted=(_model("valuation.xlsx", "valuation", _valuation_book(values, peers), _VALUATION, ("Value",)),),
    )


_VALUATION_RULES = f"""# valuation.xlsx
Sheet Inputs: header row Label, Value; rows Revenue (the last year of history.xlsx, EUR m) and every line of assumptions.md,
under its own name, percentages as fractions. A memo overrules the assumptions.
Sheet Peers: header row Peer, EV, EBITDA; a row for each peer of peers.csv, in EUR m (some give thousands); peers whose
EBITDA is not positive are left out.
Sheet Report: header row Label, Value; rows {", ".join(_VALUATION)}.
Revenue grows from year to year. EBITDA is revenue × margin; tax is paid on EBITDA less depreciation (a fraction of revenue),
if positive; the free cash flow is EBITDA − tax − capex (a fraction of revenue), at the end of each of five years. The terminal
value after year 5 is flow 5 × (1 + terminal growth) ÷ (WACC − terminal growth). Equity is enterprise value less net debt.
The median multiple is that of EV ÷ EBITDA over the peers; the peer value is it × (last revenue × margin).
"""


def _percent(label: str, value: float) -> str:
    return f"EUR m {value:.0f}" if label == "Net debt" else f"{value:.0f} m" if label == "Shares" else f"{value:.1%}"


def _peer_file(rng: Random, peers: Mapping[str, Sequence[float]]) -> str:
    thousands = rng.choice(list(peers))
    rows = [
        (name, "EUR k", f"{1_000 * ev:.0f}", f"{1_000 * ebitda:.0f}") if name == thousands else (name, "EUR m", ev, ebitda)
        for name, (ev, ebitda) in peers.items()
    ]
    rows.insert(rng.randrange(len(rows)), ("Loss SE", "EUR m", float(rng.randint(100, 300)), -float(rng.randint(2, 9))))
    return csv(("peer", "unit", "ev", "ebitda"), rows)


def _valuation_book(values: Mapping[str, float], peers: Mapping[str, Sequence[float]]) -> Book:
    at = {label: f"Inputs!$B${row}" for row, label in enumerate(values, 2)}
    years: list[list[Cell]] = [["Year", "Revenue", "Flow", "Discounted"]]
    for year in range(1, 6):
        row, before = year + 1, f"B{year}" if year > 1 else at["Revenue"]
        tax = f"MAX(0,B{row}*({at['EBITDA margin']}-{at['Depreciation']}))*{at['Tax']}"
        flow = f"=B{row}*{at['EBITDA margin']}-{tax}-B{row}*{at['Capex']}"
        years.append([year, f"={before}*(1+{at[f'Growth {year}']})", flow, f"=C{row}/(1+{at['WACC']})^A{row}"])
    terminal = f"Flows!C6*(1+{at['Terminal growth']})/({at['WACC']}-{at['Terminal growth']})/(1+{at['WACC']})^5"
    rows: list[list[Cell]] = [[name, *pair, f"=B{n}/C{n}"] for n, (name, pair) in enumerate(peers.items(), 2)]
    report = (
        f"=SUM(Flows!D2:D6)+{terminal}",
        f"=B2-{at['Net debt']}",
        f"=B3/{at['Shares']}",
        f"=MEDIAN(Peers!D2:D{len(peers) + 1})",
        f"=B5*{at['Revenue']}*{at['EBITDA margin']}",
        f"=(B6-{at['Net debt']})/{at['Shares']}",
    )
    return {
        "Inputs": _labelled(values),
        "Peers": [["Peer", "EV", "EBITDA", "Multiple"], *rows],
        "Flows": years,
        "Report": _labelled(dict(zip(_VALUATION, report))),
    }


def _solve_valuation(shown: Mapping[str, str], care: int) -> dict[str, Content]:
    values = {"Revenue": _found(r"D2\| ([\d.]+)", shown["history.xlsx"])}
    stated = re.findall(r"- (.+?): (?:EUR m )?([\d.]+)(%?)", shown["assumptions.md"])
    values |= {label: round(float(n) / 100, 4) if percent else float(n) for label, n, percent in stated}
    memo = re.search(r"(\w+) is now ([\d.]+)%", shown["memo.docx"])
    if memo and care:
        values[memo[1]] = round(float(memo[2]) / 100, 4)
    peers: dict[str, list[float]] = {}
    for line in shown["peers.csv"].splitlines()[1:]:
        name, unit, ev, ebitda = line.split(",")
        scale = 1_000 if unit == "EUR k" and care > 0 else 1
        if float(ebitda) > 0 or care < 2:
            peers[name] = [float(ev) / scale, float(ebitda) / scale]
    return {"valuation.xlsx": _valuation_book(values, peers)}


_OPENING = ("Revenue", "Cash", "Fixed assets", "Receivables", "Payables", "Debt", "Equity")
_RATES: Mapping[str, tuple[int, int]] = {
    "Depreciation": (80, 150),
    "Interest": (30, 60),
    "Tax": (200, 300),
    "Capex": (30, 80),
}
_DAYS: Mapping[str, tuple[int, int]] = {"Receivable days": (30, 60), "Payable days": (25, 50)}
_UNMATCHED = ("source", "line", "reference", "amount")


def _draw_statements(rng: Random) -> Case:
    opening = dict(zip(_OPENING, map(float, (rng.randint(400, 900), *(rng.randint(40, 200) for _ in range(5))))))
    opening["Equity"] = (
        opening["Cash"] + opening["Fixed assets"] + opening["Receivables"] - opening["Payables"] - opening["Debt"]
    )
    values = opening | {k: rng.randint(*bounds) / 1_000 for k, bounds in _RATES.items()}
    values |= {k: float(rng.randint(*bounds)) for k, bounds in _DAYS.items()}
    plan = {
        "Growth": [rng.randint(10, 90) / 1_000 for _ in YEARS],
        "Margin": [rng.randint(120, 220) / 1_000 for _ in YEARS],
        "Repayment": [float(rng.randint(1, 6)) for _ in YEARS],
        "Dividend": [float(rng.randint(1, 9)) for _ in YEARS],
    }
    revised = rng.sample([*_RATES, *_DAYS], 2)
    first = values | {k: round(values[k] * 1.1, 3) if k in _RATES else values[k] + 3 for k in revised}
    ledger, bank, unmatched = _postings(rng)
    sheet: Book = {"Balance": [["EUR m", "2024"], *([label, value] for label, value in opening.items())]}
    memos: dict[str, Spec] = {
        f"memos/{n}.docx": [f"Memo {n}", f"{rng.choice(NAMES)} has looked into it.", f"{k} is now {_stated(k, values[k])}."]
        for n, k in enumerate(revised, 1)
    }
    # An older memo on the same point: the one with the larger number is the later.
    memos["memos/0.docx"] = ["Memo 0", f"{revised[0]} is now {_stated(revised[0], first[revised[0]])}."]
    return Case(
        instruction="Read rules.md. Make model.xlsx from opening.xlsx, plan.csv, assumptions.md and memos/, and unmatched.csv "
        "from ledger/ and bank/.",
        key=f"finance/4/{sorted(values.items())}",
        files={
            "rules.md": _STATEMENT_RULES + _FORM,
            "plan.csv": csv(("label", *map(str, YEARS)), [(k, *v) for k, v in plan.items()]),
            "assumptions.md": "# Assumptions\n" + "".join(f"- {k}: {_stated(k, first[k])}\n" for k in (*_RATES, *_DAYS)),
            **ledger,
            **bank,
        },
        papers={"opening.xlsx": sheet, **memos},
        wanted=(
            _model("model.xlsx", "statements", _statement_book(values, plan), STATEMENT_OUTPUTS, tuple(map(str, YEARS))),
            table("unmatched.csv", _UNMATCHED, 2, unmatched),
        ),
    )


_STATEMENT_RULES = f"""# model.xlsx
Sheet Inputs: header row Label, Value; rows {", ".join((*_OPENING, *_RATES, *_DAYS))}. The first seven are those of
opening.xlsx; percentages are fractions. A memo overrules the assumptions, a later one (by number) an earlier one.
Sheet Plan: header row Label and the years; rows Growth, Margin, Repayment, Dividend, as in plan.csv.
Sheet Report: header row Label and the years; rows {", ".join(STATEMENT_OUTPUTS)}.
Revenue grows by Growth. Depreciation is a fraction of the fixed assets, interest one of the debt, both at the start of the
year. Net income is revenue × Margin − depreciation − interest, less tax if positive. Capex is a fraction of revenue.
Receivables and payables at the end of a year are revenue × their days ÷ 365. Cash moves by net income + depreciation − capex −
the rise of receivables + the rise of payables − Repayment − Dividend. Assets are cash, receivables and fixed assets; they equal
payables, debt and equity.
# unmatched.csv
Columns {",".join(_UNMATCHED)}. Each line of ledger/ and bank/ that has no partner in the other: the same reference and the same
amount, dated at most five days apart; a line has one partner at most. Where one line could go with several, the earlier go
together. source is the file (as ledger/2024-01.csv), line counts from the header, which is 1; amount as in the file.
"""


def _stated(label: str, value: float) -> str:
    return f"{value:.1%}" if label in _RATES else f"{value:.0f} days"


def _postings(rng: Random) -> tuple[dict[str, str], dict[str, str], list[tuple[str, ...]]]:
    """Files of the ledger and of the bank, and the lines without a partner: those of one side alone, of another amount on the
    other side, doubled, or too late."""
    lines: dict[str, list[tuple[str, ...]]] = {
        f"{side}/2024-{m:02}.csv": [] for side in ("ledger", "bank") for m in range(1, 7)
    }
    unmatched: list[tuple[str, ...]] = []
    number = rng.randint(1_000, 5_000)

    def post(side: str, day: date, reference: str, amount: int, *, alone: bool) -> None:
        path = f"{side}/2024-{day.month:02}.csv"
        row = (str(day), reference, f"{amount / 100:.2f}")
        lines[path].append(row)
        if alone:
            unmatched.append((path, str(len(lines[path]) + 1), *row[1:]))

    for month in range(1, 7):
        for _ in range(9):
            number += rng.randint(1, 4)
            day, amount, reference = date(2024, month, rng.randint(1, 20)), rng.randint(-90_000, 90_000), f"R{number}"
            later = day + timedelta(days=rng.randint(0, 5))
            fate = rng.choice(("match",) * 7 + ("ledger", "bank", "amount", "twice", "late"))
            if fate != "bank":
                post("ledger", day, reference, amount, alone=fate in ("ledger", "amount", "late"))
            if fate == "amount":
                post("bank", later, reference, amount + rng.choice((-90, 90)), alone=True)
            elif fate == "late":
                post("bank", day + timedelta(days=rng.randint(6, 8)), reference, amount, alone=True)
            elif fate != "ledger":
                post("bank", later, reference, amount, alone=fate == "bank")
            if fate == "twice":
                post("bank", later, reference, amount, alone=True)
    files = {path: csv(("date", "reference", "amount"), rows) for path, rows in lines.items()}
    sides = [{path: text for path, text in files.items() if path.startswith(side)} for side in ("ledger", "bank")]
    return sides[0], sides[1], unmatched


def _statement_book(values: Mapping[str, float], plan: Mapping[str, Sequence[float]]) -> Book:
    at = {label: f"Inputs!$B${row}" for row, label in enumerate(values, 2)}
    head: list[Cell] = ["Label", *map(str, YEARS)]
    labels = (*STATEMENT_OUTPUTS, "Receivables", "Payables", "Fixed assets", "Depreciation")
    rows: list[list[Cell]] = [head, *([label] for label in labels)]
    place = {label: n for n, label in enumerate(labels, 2)}
    for number in range(len(YEARS)):
        here = column(number + 2)
        before = {k: f"{column(number + 1)}{place[k]}" if number else at[k] for k in labels if k in _OPENING}
        now = {k: f"{here}{n}" for k, n in place.items()}
        growth, margin, repaid, paid = (f"Plan!{here}${row}" for row in range(2, 6))
        earned = f"({now['Revenue']}*{margin}-{now['Depreciation']}-{before['Debt']}*{at['Interest']})"
        moved = f"-({now['Receivables']}-{before['Receivables']})+({now['Payables']}-{before['Payables']})"
        formulas = {
            "Revenue": f"={before['Revenue']}*(1+{growth})",
            "Net income": f"={earned}-MAX(0,{earned})*{at['Tax']}",
            "Cash": f"={before['Cash']}+{now['Net income']}+{now['Depreciation']}-{now['Revenue']}*{at['Capex']}{moved}"
            f"-{repaid}-{paid}",
            "Assets": f"={now['Cash']}+{now['Receivables']}+{now['Fixed assets']}",
            "Debt": f"={before['Debt']}-{repaid}",
            "Equity": f"={before['Equity']}+{now['Net income']}-{paid}",
            "Receivables": f"={now['Revenue']}*{at['Receivable days']}/365",
            "Payables": f"={now['Revenue']}*{at['Payable days']}/365",
            "Fixed assets": f"={before['Fixed assets']}+{now['Revenue']}*{at['Capex']}-{now['Depreciation']}",
            "Depreciation": f"={before['Fixed assets']}*{at['Depreciation']}",
        }
        for label, formula in formulas.items():
            rows[place[label] - 1].append(formula)
    given: list[list[Cell]] = [[label, *row] for label, row in plan.items()]
    return {"Inputs": _labelled(values), "Plan": [head, *given], "Report": rows}


def _solve_statements(shown: Mapping[str, str], care: int) -> dict[str, Content]:
    opening = re.findall(r"A\d+\| (\D+)\nB\d+\| (-?[\d.]+)", shown["opening.xlsx"])
    values = {label: float(n) for label, n in opening if label in _OPENING}
    stated = re.findall(r"- (.+?): ([\d.]+)(%?)", shown["assumptions.md"])
    memos = [re.findall(r"\| (.+?) is now ([\d.]+)(%?)", shown[path]) for path in sorted(shown) if path.startswith("memos/")]
    for label, n, percent in [*stated, *(found for memo in memos for found in memo if care)]:
        values[label] = round(float(n) / 100, 4) if percent else float(n.rstrip("."))
    plan = {row.split(",")[0]: list(map(float, row.split(",")[1:])) for row in shown["plan.csv"].splitlines()[1:]}
    done: dict[str, Content] = {"model.xlsx": _statement_book(values, plan)}
    return done | {"unmatched.csv": csv(_UNMATCHED, _reconciled(shown, 5 if care > 1 else 31))}


def _reconciled(shown: Mapping[str, str], days: int) -> list[tuple[str, ...]]:
    """Lines without a partner at most so many days away."""
    sides: dict[str, list[tuple[date, str, int, str, str]]] = {"ledger": [], "bank": []}
    for path in sorted(shown):
        side = path.partition("/")[0]
        for number, line in enumerate(shown[path].splitlines()[1:] if side in sides else (), 2):
            day, reference, amount = line.split(",")
            sides[side].append((date.fromisoformat(day), path, number, reference, amount))
    bank = sorted(sides["bank"])
    alone: list[tuple[str, ...]] = []
    for day, path, number, reference, amount in sorted(sides["ledger"]):
        partner = next((row for row in bank if row[3:] == (reference, amount) and abs((row[0] - day).days) <= days), None)
        if partner is None:
            alone.append((path, str(number), reference, amount))
        else:
            bank.remove(partner)
    return alone + [(path, str(number), reference, amount) for _, path, number, reference, amount in bank]

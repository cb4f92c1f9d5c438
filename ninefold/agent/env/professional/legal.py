"""Legal practice: what contracts say clause by clause, what amendments make of it, what a playbook wants instead."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random

from ninefold.agent.env.names import GOODS, NAMES, PLACES
from ninefold.agent.env.professional.case import Book, Case, Content, Spec, csv, model, numbers, redline, table
from ninefold.agent.env.professional.functions import serial
from ninefold.agent.env.professional.papers import Cell

TERMS: Mapping[str, tuple[str, str, tuple[int, ...]]] = {
    "notice": (
        "Termination",
        "Either party may end this agreement by giving {} days' notice before its end.",
        (30, 45, 60, 90),
    ),
    "payment": ("Payment", "Invoices are due {} days after they are received.", (14, 30, 45, 60)),
    "cap": ("Liability", "The supplier's liability is limited to {} percent of the yearly fees.", (50, 100, 150, 200)),
    "secrecy": ("Confidentiality", "The parties keep secrets for {} years after the end of this agreement.", (2, 3, 5, 7)),
    "interest": ("Late payment", "Late payments bear interest of {} percent a year.", (4, 6, 8, 9)),
}
"""Term → heading, sentence, values."""
_NOISE = (
    ("Notices", "Notices are given in writing and count as received after {} days."),
    ("Audit", "The customer may look at the supplier's records, {} days after having asked for it."),
    ("Delivery", "The supplier delivers the goods within {} days; this is no period of notice."),
    ("Records", "The supplier keeps its records for {} years."),
)
"""Clauses that nobody asks for, with numbers as well."""
_END = "This agreement ends on {:%d %B %Y}."
_PATTERNS: Mapping[str, re.Pattern[str]] = {
    term: re.compile(re.escape(sentence).replace(r"\{\}", r"(\d+)")) for term, (_, sentence, _) in TERMS.items()
}
_COLUMNS = ("term", "value", "clause", "source")
_DEVIATIONS = ("contract", "term", "value", "standard", "clause", "source")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """One contract and its amendments."""

    name: str
    paragraphs: tuple[str, ...]
    terms: Mapping[str, tuple[int, str, str]]
    """Term → value that holds, clause, and the file that says so."""
    end: date
    amendments: Mapping[str, tuple[str, ...]]
    """File → paragraphs."""

    @property
    def path(self) -> str:
        return f"contracts/{self.name}.docx"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How hard a case is."""

    contracts: int
    amendments: int
    """Of each contract."""
    extended: bool
    """Whether an amendment may move the end, and another be withdrawn."""
    redlines: int


SHAPES: Mapping[int, Shape] = {
    1: Shape(contracts=1, amendments=0, extended=False, redlines=0),
    2: Shape(contracts=1, amendments=1, extended=False, redlines=0),
    3: Shape(contracts=3, amendments=1, extended=False, redlines=1),
    4: Shape(contracts=8, amendments=2, extended=True, redlines=2),
}


def draw(rng: Random, level: int) -> Case:
    """A case of the level."""
    shape = SHAPES[level]
    names = rng.sample(NAMES, shape.contracts)
    contracts = [_contract(rng, name, shape) for name in names]
    key = f"legal/{level}/{[(c.name, sorted(c.terms.items()), str(c.end)) for c in contracts]}"
    if level == 1:
        (contract,) = contracts
        rows = [(term, str(value), clause) for term, (value, clause, _) in contract.terms.items()]
        return Case(
            instruction="contract.md: write terms.csv with the columns term,value,clause : a row for each of "
            f"{', '.join(TERMS)} with its number and the number of its clause (such as 3.1).",
            key=key,
            files={"contract.md": "\n".join(contract.paragraphs) + "\n"},
            wanted=(table("terms.csv", _COLUMNS[:3], 1, rows),),
        )
    holidays = sorted({contracts[0].end - timedelta(days=rng.randint(20, 120)) for _ in range(6)} | set(_traps(contracts)))
    papers: dict[str, Spec] = {c.path: list(c.paragraphs) for c in contracts}
    papers |= {file: list(text) for c in contracts for file, text in c.amendments.items()}
    files = {"holidays.csv": csv(("day",), [(str(at),) for at in holidays]), "rules.md": _RULES[level]}
    if level == 2:
        (contract,) = contracts
        rows = [(term, str(value), clause, source) for term, (value, clause, source) in contract.terms.items()]
        rows.append(
            ("deadline", str(_deadline(contract.end, contract.terms["notice"][0], holidays)), *_clause_of_end(contract))
        )
        return Case(instruction=_ASKED[2], key=key, files=files, papers=papers, wanted=(table("terms.csv", _COLUMNS, 1, rows),))
    standards = {term: rng.choice(values) for term, (_, _, values) in TERMS.items()}
    files["playbook.md"] = "# Playbook\n" + "".join(
        f"- {TERMS[t][0]} ({t}): {TERMS[t][1].format(v)}\n" for t, v in standards.items()
    )
    chosen = _chosen(contracts, standards, shape.redlines)
    files["rules.md"] += "Redlines are asked for: " + ", ".join(c.path for c in chosen) + ".\n"
    return Case(
        instruction=_ASKED[level],
        key=key,
        files=files,
        papers=papers,
        wanted=(
            table("deviations.csv", _DEVIATIONS, 2, _deviations(contracts, standards)),
            _deadline_model(contracts, holidays),
            *(redline(f"redlines/{c.name}.docx", *_sides(c, standards)) for c in chosen),
        ),
    )


_ASKED = {
    2: "Read rules.md and write terms.csv for the contract in contracts/ as amended.",
    3: "Read rules.md. Hand in deviations.csv, deadlines.xlsx and the redlines that rules.md asks for.",
    4: "Read rules.md. Hand in deviations.csv, deadlines.xlsx and the redlines that rules.md asks for. Some amendments were "
    "withdrawn, some move the end.",
}
_SOURCES = """# Rules
The terms are {terms}. An amendment in amendments/ replaces the clause that it names, a later one (by number) an earlier
one; one that a later one withdraws never counts. value is the number that holds now; clause the number of its clause in the
contract (such as 3.1); source the file that says it now (as contracts/Ann.docx or amendments/Ann-1.docx).
The last day to give notice is the end less the days of notice; if that is no business day (Saturday, Sunday, or a day of
holidays.csv), the last business day before it.
""".format(terms=", ".join(TERMS))
_MODEL = """deviations.csv: columns contract (its name, as Ann), term, value, standard, clause, source; a row for each term of a
contract as amended that is not the playbook's.
deadlines.xlsx: sheet Inputs with header row Contract, End, Notice days; sheet Holidays with header row Holiday, Day, its rows
labelled H1, H2, … in the order of holidays.csv; sheet Report with header row Contract, Last day. A row for each contract. Days
are day numbers or dates. Last day is a live formula: when an end, a notice or a holiday changes, it changes. Nothing is hidden,
nothing links to other files.
redlines/NAME.docx: the contract of that name as it was signed (amendments left aside), with tracked changes that bring every
clause with a term whose number is not the playbook's to the playbook's number; nothing else is changed.
"""
_RULES = {
    2: _SOURCES
    + "terms.csv: columns term,value,clause,source; a row for each term, and one for `deadline`, the last day to give "
    "notice (as 2024-03-05) with clause and source of the end of the agreement. Inputs are left as they are.\n",
    3: _SOURCES + _MODEL,
    4: _SOURCES + _MODEL,
}


def _contract(rng: Random, name: str, shape: Shape) -> Contract:
    end = date(2025, 1, 1) + timedelta(days=rng.randint(0, 700))
    values = {term: rng.choice(values) for term, (_, _, values) in TERMS.items()}
    clauses: list[tuple[str, str, str]] = [
        (term, heading, text.format(values[term])) for term, (heading, text, _) in TERMS.items()
    ]
    clauses += [("", heading, text.format(rng.randint(2, 28))) for heading, text in rng.sample(_NOISE, 2)]
    clauses.append(("end", "Term", _END.format(end)))
    rng.shuffle(clauses)
    lines = [f"Agreement with {name} of {rng.choice(PLACES)} on {rng.choice(GOODS)}"]
    where: dict[str, str] = {}
    for number, (term, heading, text) in enumerate(clauses, 1):
        first = rng.random() < 0.5
        other = f"{number}.{2 if first else 1} The parties act in good faith."
        clause = f"{number}.{1 if first else 2}"
        body = [f"{clause} {text}", other]
        lines += [f"{number}. {heading}", *(body if first else body[::-1])]
        where[term] = clause
    path = "contract.md" if not shape.amendments else f"contracts/{name}.docx"
    terms = {term: (value, where[term], path) for term, value in values.items()}
    amendments: dict[str, tuple[str, ...]] = {}
    changes = rng.sample(list(TERMS), shape.amendments)
    for number, term in enumerate(changes, 1):
        file, value = f"amendments/{name}-{number}.docx", rng.choice([v for v in TERMS[term][2] if v != values[term]])
        amendments[file] = (f"Amendment {number}", _replaces(where[term], TERMS[term][1].format(value)))
        terms[term] = (value, where[term], file)
    if shape.extended:
        number = len(changes) + 1
        if rng.random() < 0.5:
            end += timedelta(days=rng.randint(30, 300))
            amendments[f"amendments/{name}-{number}.docx"] = (
                f"Amendment {number}",
                _replaces(where["end"], _END.format(end)),
            )
        else:
            amendments[f"amendments/{name}-{number}.docx"] = (f"Amendment {number}", "Amendment 1 is withdrawn.")
            terms[changes[0]] = (values[changes[0]], where[changes[0]], path)
    return Contract(name=name, paragraphs=tuple(lines), terms=terms, end=end, amendments=amendments)


def _replaces(clause: str, text: str) -> str:
    return f"Clause {clause} is replaced by: {text}"


def _traps(contracts: Sequence[Contract]) -> list[date]:
    """Holidays on which deadlines would fall."""
    return [c.end - timedelta(days=c.terms["notice"][0]) for c in contracts[::2]]


def _deadline(end: date, notice: int, holidays: Sequence[date]) -> date:
    at = end - timedelta(days=notice)
    while at.weekday() > 4 or at in holidays:
        at -= timedelta(days=1)
    return at


def _clause_of_end(contract: Contract) -> tuple[str, str]:
    line = next(line for line in contract.paragraphs if "This agreement ends on" in line)
    return line.split()[0], contract.path


def _deviations(contracts: Sequence[Contract], standards: Mapping[str, int]) -> list[tuple[str, ...]]:
    return [
        (c.name, term, str(value), str(standards[term]), clause, source)
        for c in contracts
        for term, (value, clause, source) in c.terms.items()
        if value != standards[term]
    ]


def _chosen(contracts: Sequence[Contract], standards: Mapping[str, int], count: int) -> list[Contract]:
    """The contracts that depart most from the playbook as signed."""
    departs = {c.name: sum(a != b for a, b in zip(*_sides(c, standards))) for c in contracts}
    return sorted(contracts, key=lambda c: (-departs[c.name], c.name))[:count]


def _sides(contract: Contract, standards: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """Paragraphs as signed, and with the playbook's numbers."""
    return list(contract.paragraphs), [_standard(line, standards)[0] for line in contract.paragraphs]


def _standard(line: str, standards: Mapping[str, int]) -> tuple[str, str]:
    """A paragraph with the playbook's number, and with the change tracked."""
    for term, pattern in _PATTERNS.items():
        found = pattern.search(line)
        if found and int(found[1]) != standards[term]:
            start, end = found.span(1)
            return (
                f"{line[:start]}{standards[term]}{line[end:]}",
                f"{line[:start]}{{--{found[1]}--}}{{++{standards[term]}++}}{line[end:]}",
            )
    return line, line


def _deadline_model(contracts: Sequence[Contract], holidays: Sequence[date]) -> dict[str, object]:
    book = _deadline_book({c.name: (c.end, c.terms["notice"][0]) for c in contracts}, holidays)
    inputs = numbers({sheet: rows for sheet, rows in book.items() if sheet != "Report"})
    days = [name for name in inputs if name.endswith(("/End", "/Day"))]
    return model("deadlines.xlsx", "deadlines", inputs, [f"Report/{c.name}/Last day" for c in contracts], days=days)


def _deadline_book(contracts: Mapping[str, tuple[date, int]], holidays: Sequence[date]) -> Book:
    free = f"Holidays!$B$2:$B${len(holidays) + 1}"
    given: list[list[Cell]] = [[name, serial(end), notice] for name, (end, notice) in contracts.items()]
    return {
        "Inputs": [["Contract", "End", "Notice days"], *given],
        "Holidays": [["Holiday", "Day"], *([f"H{n}", serial(at)] for n, at in enumerate(holidays, 1))],
        "Report": [
            ["Contract", "Last day"],
            *([name, f"=WORKDAY(Inputs!B{row}-Inputs!C{row}+1,-1,{free})"] for row, name in enumerate(contracts, 2)),
        ],
    }


@dataclass(slots=True, kw_only=True)
class _Reading:
    """What a reader has made of a contract so far."""

    lines: list[str]
    sources: dict[str, str]
    """Clause → file that says it now."""
    texts: dict[str, str]
    """Clause → its text now."""

    def term(self, term: str) -> tuple[str, str, str]:
        """(value, clause, source)"""
        for clause, text in self.texts.items():
            if found := _PATTERNS[term].search(text):
                return found[1], clause, self.sources[clause]
        return "", "", ""

    @property
    def end(self) -> date:
        return next(_date(text) for text in self.texts.values() if "This agreement ends on" in text)


_MONTHS = tuple(f"{date(2000, month, 1):%B}" for month in range(1, 13))


def _date(text: str) -> date:
    found = re.search(r"(\d\d) (\w+) (\d{4})", text)
    assert found is not None
    return date(int(found[3]), _MONTHS.index(found[2]) + 1, int(found[1]))


def solve(shown: Mapping[str, str], level: int, care: int) -> dict[str, Content]:
    """Without care amendments are overlooked, with some of it withdrawals and holidays."""
    if level == 1:
        reading = _read("contract.md", shown["contract.md"].splitlines(), {})
        rows = [(term, *reading.term(term)[:2]) for term in TERMS]
        return {"terms.csv": csv(_COLUMNS[:3], rows)}
    holidays = [date.fromisoformat(line) for line in shown["holidays.csv"].split()[1:]]
    contracts = {
        path[10:-5]: _read(path, _plain(shown[path]), _amendments(shown, path[10:-5], care))
        for path in sorted(shown)
        if path.startswith("contracts/")
    }
    if level == 2:
        (reading,) = contracts.values()
        rows = [(term, *reading.term(term)) for term in TERMS]
        at = _deadline(reading.end, int(reading.term("notice")[0]), holidays if care > 1 else ())
        clause = next(clause for clause, text in reading.texts.items() if "This agreement ends on" in text)
        rows.append(("deadline", str(at), clause, reading.sources[clause]))
        return {"terms.csv": csv(_COLUMNS, rows)}
    standards = {term: int(found[1]) for term, p in _PATTERNS.items() if (found := p.search(shown["playbook.md"]))}
    rows = [
        (name, term, value, str(standards[term]), clause, source)
        for name, reading in contracts.items()
        for term in TERMS
        for value, clause, source in [reading.term(term)]
        if int(value) != standards[term]
    ]
    asked = re.findall(r"contracts/(\w+)\.docx", shown["rules.md"].rpartition("asked for: ")[2])
    given = {name: (reading.end, int(reading.term("notice")[0])) for name, reading in contracts.items()}
    done: dict[str, Content] = {"deviations.csv": csv(_DEVIATIONS, rows), "deadlines.xlsx": _deadline_book(given, holidays)}
    return done | {f"redlines/{name}.docx": [_standard(line, standards)[1] for line in contracts[name].lines] for name in asked}


def _plain(shown: str) -> list[str]:
    """Paragraphs without the numbers that `papers.py show` puts before them."""
    return [line.partition("| ")[2] for line in shown.splitlines()]


def _amendments(shown: Mapping[str, str], name: str, care: int) -> dict[str, list[str]]:
    """Those that count, by file."""
    found = {path: _plain(shown[path]) for path in sorted(shown) if path.startswith(f"amendments/{name}-")}
    withdrawn = {n for text in found.values() for n in re.findall(r"Amendment (\d+) is withdrawn", " ".join(text))}
    if care < 2:
        withdrawn = set[str]()
    return {path: text for path, text in found.items() if care and path[-6:-5] not in withdrawn}


def _read(path: str, lines: list[str], amendments: Mapping[str, list[str]]) -> _Reading:
    clauses = [line.partition(" ") for line in lines if re.match(r"\d+\.\d ", line)]
    reading = _Reading(
        lines=lines, sources={clause: path for clause, _, _ in clauses}, texts={clause: text for clause, _, text in clauses}
    )
    for file, text in amendments.items():
        for clause, replaced in re.findall(r"Clause (\d+\.\d) is replaced by: (.*)", "\n".join(text)):
            reading.texts[clause], reading.sources[clause] = replaced, file
    return reading

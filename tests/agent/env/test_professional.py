"""Professional: formulas are computed as Excel does, what is handed in is judged by computing it anew, and care pays."""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import date
from random import Random

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl.styles import Font

from ninefold.agent.env.professional import Professional, deliverable, papers
from ninefold.agent.env.professional.case import Content
from ninefold.agent.env.professional.functions import serial
from ninefold.agent.env.professional.kinds import KINDS
from ninefold.agent.env.professional.values import Fault
from ninefold.agent.env.professional.workbook import Foul, read
from ninefold.agent.env.professional.world import TOOL, inputs
from ninefold.core.types import Task

FAMILY = Professional()
GRID: list[list[papers.Cell]] = [[10, "tea", True], [20, "jam", None], [-5.5, "tea", 3]]
"""A1 to C3 of the sheet on which formulas are tried."""


def _value(formula: str) -> object:
    book = read(papers.workbook({"A": GRID, "My sheet": [[formula, 7]]}))
    return book.computed({}).value(("my sheet", 1, 1))


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("=1+2*3^2", 19.0),
        ("=-2^2", 4.0),
        ("=2^3^2", 64.0),
        ("=10-4-3", 3.0),
        ("=50%*8", 4.0),
        ('="a"&1&TRUE', "a1TRUE"),
        ('="A"="a"', True),
        ("=1<>2", True),
        ("=SUM(A!A1:A3)", 24.5),
        ("=SUM(A!A:A,B1)", 31.5),
        ("=SUM(A!$A$1:$C$3)", 27.5),
        ("=AVERAGE(A!A1:A2)", 15.0),
        ("=COUNT(A!A1:C3)", 4.0),
        ("=COUNTA(A!B1:C3)", 5.0),
        ("=MEDIAN(3,1,2,10)", 2.5),
        ("=ROUND(2.5,0)", 3.0),
        ("=ROUND(-2.5,0)", -3.0),
        ("=ROUND(1.005,2)", 1.01),
        ("=ROUNDUP(1.21,1)", 1.3),
        ("=ROUNDDOWN(-1.29,1)", -1.2),
        ("=INT(-1.5)", -2.0),
        ("=MOD(-3,2)", 1.0),
        ('=SUMIF(A!B1:B3,"tea",A!A1:A3)', 4.5),
        ('=SUMIFS(A!A1:A3,A!B1:B3,"t*",A!A1:A3,">0")', 10.0),
        ('=COUNTIF(A!A1:A3,">=10")', 2.0),
        ('=SUMPRODUCT((A!B1:B3="tea")*(A!A1:A3>0)*A!A1:A3)', 10.0),
        ("=INDEX(A!A1:B3,2,2)", "jam"),
        ('=INDEX(A!A1:A3,MATCH("jam",A!B1:B3,0))', 20.0),
        ("=VLOOKUP(20,A!A1:B3,2,FALSE)", "jam"),
        ('=IFERROR(XLOOKUP("pie",A!B1:B3,A!A1:A3),-1)', -1.0),
        ("=IF(A!A1>5,1/2,1/0)", 0.5),
        ("=IFERROR(1/0,9)", 9.0),
        ("=AND(A!A1>5,A!A2>50)", False),
        ("=OR(FALSE,A!A2=20)", True),
        ("=ROUND(PMT(0.05/12,60,-10000),4)", 188.7123),
        ("=ROUND(FV(0.06/12,10,-200,-500),2)", 2571.18),
        ("=ROUND(NPV(0.1,-10000,3000,4200,6800),2)", 1188.44),
        ("=ROUND(IPMT(0.1/12,1,36,8000),2)", -66.67),
        ("=ROUND(PPMT(0.1/12,1,24,2000),2)", -75.62),
        ("=DATE(2024,14,1)", serial(date(2025, 2, 1))),
        ("=EDATE(DATE(2024,1,31),1)", serial(date(2024, 2, 29))),
        ("=EOMONTH(DATE(2024,1,15),1)", serial(date(2024, 2, 29))),
        ("=WEEKDAY(DATE(2024,12,1),2)", 7.0),
        ("=WORKDAY(DATE(2024,12,24),2,DATE(2024,12,25))", serial(date(2024, 12, 27))),
        ("=WORKDAY(DATE(2024,12,2),-1)", serial(date(2024, 11, 29))),
        ("=NETWORKDAYS(DATE(2024,12,2),DATE(2024,12,8))", 5.0),
        ('=LEFT("abc",2)&RIGHT("abc",1)&MID("abc",2,1)', "abcb"),
        ("=CHOOSE(2,1/0,5)", 5.0),
        ("=LARGE(A!A1:A3,2)", 10.0),
        ("='My sheet'!B1*2", 14.0),
    ],
)
def test_formulas_come_to_what_excel_makes_of_them(formula: str, value: object) -> None:
    found = _value(formula)
    assert found == value or (isinstance(found, float) and found == pytest.approx(value, rel=1e-12))


@pytest.mark.parametrize(
    ("formula", "code"),
    [
        ("=1/0", "#DIV/0!"),
        ('="a"+1', "#VALUE!"),
        ("=NOPE(1)", "#NAME?"),
        ("=SUM(Nowhere!A1)", "#REF!"),
        ("=SUM(A!A1:A3", "#NAME?"),
        ("=ROUND()", "#VALUE!"),
        ("=10^400", "#NUM!"),
        ("=VLOOKUP(99,A!A1:B3,2,FALSE)", "#N/A"),
        ("=" + "(" * 60 + "1" + ")" * 60, "#NAME?"),
        ("=ROUND(1,400)", "#NUM!"),
        ("=1" + "+1" * 990, "#NUM!"),
        ("=WEBSERVICE(1)", "#NAME?"),
        ("=__import__(1)", "#NAME?"),
    ],
)
def test_what_has_no_value_says_so(formula: str, code: str) -> None:
    with pytest.raises(Fault, match=code.replace("?", r"\?")):
        _value(formula)


@pytest.mark.parametrize("rows", [[["=A2"], ["=A1"]], [["=A1+1"]], [["=SUM(A:A)"]]])
def test_circles_are_told(rows: list[list[papers.Cell]]) -> None:
    with pytest.raises(Foul, match="circle"):
        read(papers.workbook({"S": rows})).computed({}).value(("s", 1, 1))


def test_text_that_doubles_is_cut_short() -> None:
    rows: list[list[papers.Cell]] = [["tea"], *([f"=A{n}&A{n}"] for n in range(1, 60))]
    with pytest.raises(Fault, match="#VALUE!"):
        read(papers.workbook({"S": rows})).computed({}).value(("s", 60, 1))


def test_a_long_chain_is_computed() -> None:
    rows: list[list[papers.Cell]] = [[f"=A{n + 1}+1"] for n in range(1, 1500)]
    assert read(papers.workbook({"S": [*rows, [0]]})).computed({}).value(("s", 1, 1)) == 1499.0


@settings(max_examples=50)
@given(st.text(max_size=40))
def test_any_formula_is_read_in_time(text: str) -> None:
    try:
        _value("=" + "".join(c for c in text if c.isprintable()))
    except (Fault, Foul):
        return


@settings(max_examples=25)
@given(st.binary(max_size=200))
def test_anything_handed_in_is_judged(data: bytes) -> None:
    for level in (0, 3, 4):
        for wanted in FAMILY.generate("train", level, 2).data["wanted"]:
            try:
                assert deliverable.share(wanted, data, Random(0)) == 0
            except Foul:
                continue


TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=0x24F, exclude_characters="{}="), min_size=1, max_size=12)


@given(st.lists(st.lists(TEXT | st.integers(-(10**9), 10**9) | st.none(), min_size=1, max_size=4), min_size=1, max_size=4))
def test_a_workbook_shows_what_it_was_made_of(rows: list[list[papers.Cell]]) -> None:
    cells = {f"{papers.column(c)}{r}": str(v) for r, row in enumerate(rows, 1) for c, v in enumerate(row, 1) if v is not None}
    assert papers.cells(papers.workbook({"S": rows})) == {"S": cells}


@given(st.lists(st.lists(st.tuples(st.sampled_from(["", "ins", "del"]), TEXT), max_size=4), max_size=4))
def test_a_word_file_holds_its_tracked_changes(found: list[list[tuple[str, str]]]) -> None:
    marks = {"": "%s", "ins": "{++%s++}", "del": "{--%s--}"}
    data = papers.word(["".join(marks[kind] % text for kind, text in pieces) for pieces in found])
    for left_out in ("ins", "del"):
        told, meant = (
            ["".join(text for kind, text in pieces if kind != left_out) for pieces in side]
            for side in (papers.pieces(data), found)
        )
        assert told == meant


def _shown(task: Task) -> dict[str, str]:
    return {"": task.instruction, **{path: papers.shown(path, data) for path, data in inputs(task).items() if path != TOOL}}


def _solved(task: Task, care: int) -> dict[str, Content]:
    return KINDS[task.data["kind"]].solve(_shown(task), task.level, care)


def _shares(task: Task, content: Mapping[str, Content]) -> dict[str, float]:
    found: dict[str, float] = {}
    for wanted in task.data["wanted"]:
        made = content[wanted["path"]]
        data = made.encode() if isinstance(made, str) else papers.packed(made)
        found[wanted["path"]] = deliverable.share(wanted, data, Random(1))
    return found


@pytest.mark.parametrize("level", range(FAMILY.levels))
def test_whoever_reads_the_files_with_care_finds_what_was_drawn(level: int) -> None:
    kinds: set[str] = set()
    for seed in range(12 if level < 4 else 6):
        task = FAMILY.generate("train", level, seed)
        kinds.add(task.data["kind"])
        assert set(_shares(task, _solved(task, 2)).values()) == {1.0}, task.id
    assert len(kinds) == (3 if level else 1)


@pytest.mark.parametrize("level", [2, 3, 4])
def test_whoever_overlooks_something_does_not(level: int) -> None:
    tasks = [FAMILY.generate("dev", level, seed) for seed in range(9)]
    worst = [[min(_shares(task, _solved(task, care)).values()) == 1.0 for task in tasks] for care in (0, 1, 2)]
    assert sum(worst[0]) < sum(worst[2]) == len(tasks)
    assert sum(worst[0]) <= sum(worst[1]) < len(tasks)


@pytest.mark.parametrize("level", [2, 3, 4])
def test_every_output_depends_on_the_inputs(level: int) -> None:
    models = [w for seed in range(9) for w in FAMILY.generate("dev", level, seed).data["wanted"] if w["kind"] == "model"]
    assert models
    for wanted in models:
        compute = deliverable.MODELS[wanted["name"]]
        base, other = compute(wanted["inputs"]), compute(deliverable.varied(wanted, Random(3)))
        assert all(base[name] != other[name] for name in wanted["outputs"])


def _loan() -> Task:
    tasks = (FAMILY.generate("train", 2, seed) for seed in range(99))
    return next(task for task in tasks if task.data["wanted"][0]["path"] == "loan.xlsx")


def test_a_workbook_of_another_program_is_read() -> None:
    task = _loan()
    (wanted,) = task.data["wanted"]
    book = openpyxl.load_workbook(io.BytesIO(papers.packed(_solved(task, 2)["loan.xlsx"])))
    book["Inputs"]["A1"].font = Font(bold=True, color="FF0000FF")
    book.create_sheet("Notes")["A1"] = date(2024, 12, 1)
    book["Report"]["B2"].number_format = "#,##0.00"
    assert deliverable.share(wanted, _saved(book), Random(0)) == 1.0
    book["Report"]["B5"] = 1.0
    assert deliverable.share(wanted, _saved(book), Random(0)) == 0.75
    book["Inputs"]["B2"] = 1000.5
    assert deliverable.share(wanted, _saved(book), Random(0)) == 0.75 * 0.75
    book["Inputs"]["B2"] = "=1000"
    with pytest.raises(Foul, match="holds a formula"):
        deliverable.share(wanted, _saved(book), Random(0))


def _saved(book: openpyxl.Workbook) -> bytes:
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("who,n\nAnn,1\nBob,2.50\n", 1.0),
        ("who,n\r\nBob, 2.5\r\nAnn,1.0\r\n", 1.0),
        ("who,n\nAnn,1\n", 0.5),
        ("who,n\nAnn,1\nBob,2.5\nCat,3\n", 0.5),
        ("who,n\nAnn,2\nBob,2\n", 0.0),
    ],
)
def test_rows_of_a_table_are_counted(text: str, share: float) -> None:
    wanted = {"kind": "table", "columns": ["who", "n"], "keys": 1, "rows": [["Ann", "1"], ["Bob", "2.5"]]}
    assert deliverable.share(wanted, text.encode(), Random(0)) == share


@pytest.mark.parametrize(
    "text",
    ["", "who;n\nAnn;1\n", "n,who\n1,Ann\n", "who,n\nAnn,1\nAnn,2\n", "who,n\nAnn,=1\n", "who,n\nAnn\n", "who,n\n-x,1\n"],
)
def test_tables_out_of_form_are_foul(text: str) -> None:
    wanted = {"kind": "table", "columns": ["who", "n"], "keys": 1, "rows": [["Ann", "1"]]}
    with pytest.raises(Foul):
        deliverable.share(wanted, text.encode(), Random(0))


def test_a_redline_keeps_the_original_and_changes_what_is_due_alone() -> None:
    wanted = {"kind": "redline", "before": ["a 1", "b 2"], "after": ["a 5", "b 2"]}
    for lines, share in (["a {--1--}{++5++}", "b 2"], 1.0), (["{++a 5++}{--a 1--}", "b 2"], 1.0), (["a 1", "b 2"], 0.0):
        assert deliverable.share(wanted, papers.word(lines), Random(0)) == share
    for lines in (["a 5", "b 2"], ["a {--1--}{++5++}", "b {--2--}{++3++}"], ["a {--1--}{++5++}"]):
        with pytest.raises(Foul):
            deliverable.share(wanted, papers.word(lines), Random(0))

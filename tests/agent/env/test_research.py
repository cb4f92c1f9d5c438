"""Research: notes are parsed strictly, and each claim must stand in the document that it cites."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninefold.agent.env.names import NAMES
from ninefold.agent.env.play import play
from ninefold.agent.env.research import Research, report
from ninefold.agent.env.research.assignment import CORRECTIONS, LEVELS
from ninefold.agent.env.research.facts import RELATIONS, Fact, sentences
from ninefold.agent.env.research.inquiry import Wanted
from ninefold.agent.env.research.note import judge, parse, write
from ninefold.agent.env.research.stacks import stacks
from ninefold.core.errors import UserError
from ninefold.core.protocols import Style
from ninefold.core.types import EFFORTS, Call

FAMILY = Research()

CLAIMS = st.tuples(
    st.builds(lambda n, r, i: Fact(person=n, relation=r, value=RELATIONS[r].values[i]).sentence,
              st.sampled_from(NAMES), st.sampled_from(list(RELATIONS)), st.integers(0, 7)),
    st.integers(1, 60).map(str),
)  # fmt: skip


@given(st.lists(CLAIMS, max_size=5))
def test_a_note_reads_as_it_was_written(claims):
    parsed = parse(write(claims))
    assert parsed is not None
    assert [tuple(claim) for claim in parsed] == claims


@given(st.text())
def test_any_note_is_read_in_time(note):
    claims = parse(note * 50)
    assert claims is None or all("[" not in claim.sentence for claim in claims)


TEXTS = {"1": "Ann is in Rome . Bob has tea .", "2": "Ann was in Oslo ."}
WANTED = ("Ann is in Rome", "Bob has tea")


@pytest.mark.parametrize(
    ("note", "score"),
    [
        ("Ann is in Rome [1] . Bob has tea [1]", 1.0),
        ("Bob has tea [1]\nAnn is in Rome [1].", 1.0),
        ("Ann is in Rome [1]", 0.5),
        ("Ann is in Rome [1] . Bob has tea", 0.0),
        ("Ann is in Rome [2] . Bob has tea [1]", 0.0),
        ("Ann is in Rome [1] . Bob has tea [1] . Ann was in Oslo [2]", 0.0),
        ("Ann is in Rome [1] . Ann is in Rome [1]", 0.0),
        ("is in Rome [1]", 0.0),
        ("Ann is in Rome [9]", 0.0),
        ("[1]", 0.0),
        ("", 0.0),
        (None, 0.0),
        (3, 0.0),
    ],
)
def test_judgement(note, score):
    assert judge(note, WANTED, TEXTS, ["1", "2"]).score == score
    assert judge(note, WANTED, TEXTS, []).score == 0.0


@pytest.mark.parametrize("level", range(len(LEVELS)))
def test_each_fact_stands_in_one_document_and_what_overrules_it_wins(level):
    for seed in range(15):
        task = FAMILY.generate("train", level, seed)
        documents = {d["id"]: d["text"] for d in task.data["documents"]}
        for sentence, cited in task.data["claims"]:
            assert [id for id, text in documents.items() if sentence in sentences(text)] == [cited]
        overruling = [text for text in documents.values() if text.startswith(CORRECTIONS)]
        assert len(overruling) == (level == 3)
        if overruling:
            right = sentences(overruling[0])[1]
            assert right in [sentence for sentence, _ in task.data["claims"]]
            subject = right.rpartition(" ")[0] + " "
            assert sum(s.startswith(subject) for text in documents.values() for s in sentences(text)) == 2
        real = [text for text in documents.values() if not text.endswith(" .")]
        assert bool(real) == (level > 0)


def test_level_0_takes_one_search():
    for seed in range(50):
        task = FAMILY.generate("train", 0, seed)
        (person, relation, _), (sentence, cited) = task.data["asked"][0], task.data["claims"][0]
        world = FAMILY.open(task, seed=0)
        seen = world.call(Call(tool="search", arguments={"query": person + RELATIONS[relation].now}))
        assert f"{cited} {sentence} ." in seen.text.splitlines()
        assert FAMILY.verify(task, world.final(f"{sentence} [{cited}]")).status == "pass"
        world.close()


@pytest.mark.parametrize("level", [1, 2, 3])
def test_more_effort_finds_more(level):
    found = {}
    for effort in EFFORTS:
        tasks = [FAMILY.generate("train", level, seed) for seed in range(40)]
        scores = [play(FAMILY, t, FAMILY.demonstrate(t, Style(effort=effort, seed=0)))[0].score for t in tasks]
        found[effort] = sum(scores) / len(scores)
    assert found["low"] < found["high"] < found["max"], found


def test_the_example_in_the_task_is_nobodys_answer():
    for level in range(len(LEVELS)):
        task = FAMILY.generate("dev", level, 1)
        example = task.instruction.rpartition(": ")[2]
        assert all(example.split()[-2] not in d["text"] for d in task.data["documents"] if d["text"].endswith(" ."))
        assert FAMILY.verify(task, {"response": example, "shown": ["0", "1"]}).score == 0.0


STATED = (
    Wanted("A refers to B", "1", ("B",)),
    Wanted("the default of n in B is 5", "2", ("n", "5")),
    Wanted("B refers to C", "2", ("C",)),
)
PAGES = {"1": "A(x)\n\nSee Also\n--------\nB : more", "2": "B(n=5, m=55)\n\nSee Also\n--------\nC"}


@pytest.mark.parametrize(
    ("claims", "score"),
    [
        ([("A refers to B", "1", "B : more"), ("the default of n in B is 5", "2", "n=5"), ("B refers to C", "2", "C")], 1.0),
        ([("A refers to B", "1", "B"), ("the default of n in B is 5", "2", "n=5")], 2 / 3),
        ([("A refers to B", "1", "See Also -------- B"), ("B refers to C", "2", "C")], 2 / 3),
        # One claim of four is unsupported: three of three found, times three quarters.
        (
            [
                ("A refers to B", "1", "B"),
                ("the default of n in B is 5", "2", "n=5"),
                ("B refers to C", "2", "C"),
                ("A", "1", "x"),
            ],
            0.75,
        ),
        ([("A refers to B", "1", "B"), ("A refers to C", "1", "B")], 0.0),
        ([("the default of n in B is 5", "2", "m=55")], 0.0),
        ([("the default of n in B is 5", "2", "n=6")], 0.0),
        ([("the default of n in B is 5", "1", "n=5")], 0.0),
        ([("the default of n in B is 5", "2", "n=5"), ("the default of n in B is 5", "2", "B(n=5")], 0.0),
        ([*((one.text, one.cited, "n=5") for one in STATED), ("the default of n in B is 6", "2", "n=5")], 0.0),
    ],
)
def test_a_report_is_worth_what_it_supports(claims, score):
    assert report.judge(report.write(claims), STATED, PAGES, ["1", "2"]).score == pytest.approx(score)
    assert report.judge(report.write(claims), STATED, PAGES, []).score == 0.0


@pytest.mark.parametrize("text", ["", "A refers to B", '- A refers to B [1 ""]', '- A refers to B [1 "B"]\nand so on', None, 7])
def test_what_is_no_report_is_worth_nothing(text):
    assert report.judge(text, STATED, PAGES, ["1", "2"]).score == 0.0


@given(st.text())
def test_any_report_is_read_in_time(text):
    claims = report.parse(f"- {text} [1 " * 40)
    assert claims is None or all(claim.cited.isdigit() for claim in claims)


@pytest.mark.parametrize("level", range(len(LEVELS), FAMILY.levels))
def test_every_claim_of_deep_research_can_be_found(level):
    for seed in range(3):
        task = FAMILY.generate("dev", level, seed)
        entries = {entry.id: entry for entry in stacks().entries.values()}
        for text, cited, marks in task.data["wanted"]:
            assert all(mark in entries[cited].text for mark in marks)
            assert entries[cited].title in text
        for trail in task.data["trails"]:
            held = [entry.title for entry in entries.values() if trail["quote"] in entry.prose]
            assert held == [trail["titles"][0]]


def test_deep_research_pays_for_looking_longer():
    found = {}
    for effort in EFFORTS:
        tasks = [FAMILY.generate("train", len(LEVELS), seed) for seed in range(12)]
        scores = [play(FAMILY, t, FAMILY.demonstrate(t, Style(effort=effort, seed=0)))[0].score for t in tasks]
        found[effort] = sum(scores) / len(scores)
    assert found["low"] < found["high"] <= found["max"], found


def test_deep_research_goes_on_with_the_same_documents_alone():
    task = FAMILY.generate("train", len(LEVELS), 0)
    with pytest.raises(UserError, match="other versions"):
        FAMILY.open(replace(task, data={**task.data, "stacks": "others"}), seed=0)

"""Research: notes are parsed strictly, and each claim must stand in the document that it cites."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninefold.agent.env.names import NAMES
from ninefold.agent.env.play import play
from ninefold.agent.env.research import Research
from ninefold.agent.env.research.assignment import CORRECTIONS
from ninefold.agent.env.research.facts import RELATIONS, Fact, sentences
from ninefold.agent.env.research.note import judge, parse, write
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


@pytest.mark.parametrize("level", range(FAMILY.levels))
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
    for level in range(FAMILY.levels):
        task = FAMILY.generate("dev", level, 1)
        example = task.instruction.rpartition(": ")[2]
        assert all(example.split()[-2] not in d["text"] for d in task.data["documents"] if d["text"].endswith(" ."))
        assert FAMILY.verify(task, {"response": example, "shown": ["0", "1"]}).score == 0.0

"""The office: days pass, events happen, every criterion is judged by what was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninefold.agent.env.assistant import Assistant
from ninefold.agent.env.assistant.criteria import Criterion, score
from ninefold.agent.env.assistant.desk import Desk, Entry, Event
from ninefold.agent.env.assistant.question import WORDINGS
from ninefold.agent.env.names import NAMES
from ninefold.agent.env.play import play
from ninefold.core.protocols import Style
from ninefold.core.types import EFFORTS, Call, Task

FAMILY = Assistant()
STAFF = {"Ann": "Bob", "Bob": "Cat", "Cat": "Ann"}
EVENTS = (
    Event(day=1, kind="mail", who="Ann", text="Tomorrow tell my boss tea ."),
    Event(day=2, kind="mail", who="Ann", text="Not tea but jam ."),
    Event(day=2, kind="staff", who="Ann", text="Cat"),
    Event(day=2, kind="note", who="Bob", text="rice"),
)


def test_events_happen_on_their_day():
    desk = Desk.open(STAFF, EVENTS)
    assert (desk.day, desk.boss("Ann"), desk.search("note", "Bob")) == (1, "Bob", [])
    assert desk.search("mail", "ann") == ["day 1 Ann: Tomorrow tell my boss tea ."]
    desk.next_day()
    assert (desk.day, desk.boss("Ann"), desk.search("note", "Bob")) == (2, "Cat", ["Bob: rice"])
    assert desk.search("mail", "day 2") == ["day 2 Ann: Not tea but jam ."]
    assert desk.written() == []


@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20), max_size=4))
def test_a_saved_desk_is_the_same_desk(texts):
    desk = Desk.open(STAFF, EVENTS)
    for text in texts:
        desk.write("mail", "Bob", text)
    desk.next_day()
    again = Desk.load(desk.dump())
    for each in (desk, again):
        each.write("note", "x", "y")
    assert again.written() == desk.written()
    assert [entry.text for entry in again.written() if entry.store == "mail"] == texts
    assert (again.day, again.boss("Ann"), again.search("mail", "ann")) == (
        desk.day,
        desk.boss("Ann"),
        desk.search("mail", "ann"),
    )


ENTRIES = st.builds(
    Entry,
    store=st.sampled_from(["mail", "chat", "note"]),
    day=st.integers(1, 3),
    to=st.sampled_from(NAMES[:3]),
    text=st.sampled_from(["tea", "jam"]),
)


def _final(entries: list[Entry]) -> dict[str, object]:
    written = [{"store": e.store, "day": e.day, "to": e.to, "text": e.text} for e in entries]
    return {"response": "done", "day": 3, "written": written}


@given(wanted=st.lists(ENTRIES, min_size=1, max_size=5), kept=st.integers(0, 5), stray=ENTRIES)
def test_a_score_is_the_share_met_and_nothing_for_strays(wanted, kept, stray):
    criteria = [Criterion(event=i, entry=entry) for i, entry in enumerate(wanted)]
    done = wanted[:kept]
    assert score(criteria, _final(done)).score == pytest.approx(len(done) / len(wanted))
    assert (score(criteria, _final(done)).status == "pass") == (len(done) == len(wanted))
    assert score(criteria, _final([*wanted, stray])).score == 0.0


@pytest.mark.parametrize("level", [0, 1])
def test_a_question_is_fixed_phrases_around_a_name(level):
    phrases = set(FAMILY.phrases())
    shares = []
    for seed in range(300):
        task = FAMILY.generate("train", level, seed)
        shares.append(task.data["sent"])
        before, after = task.instruction.split(task.data["person"])
        wording = next(w for w in WORDINGS if before in (w.once, w.twice))
        assert {before, wording.end, wording.send} <= phrases
        assert after == wording.end + (wording.send if task.data["sent"] else "")
        assert task.tools == ("lookup", "send")
        assert "error: busy" in phrases
    assert 0.25 < sum(shares) / len(shares) < 0.45


def test_the_directory_is_visibly_busy_and_alike_for_every_sample():
    busy = 0
    for seed in range(200):
        task = FAMILY.generate("train", 0, seed)
        seen = []
        for sample in range(2):
            world = FAMILY.open(task, seed=sample)
            seen.append([world.call(Call(tool="lookup", arguments={"key": task.data["person"]})).text for _ in range(5)])
            world.close()
        assert seen[0] == seen[1]
        assert set(seen[0]) <= {"error: busy", task.data["staff"][task.data["person"]]}
        busy += seen[0].count("error: busy")
    assert 0.30 < busy / 1000 < 0.40


@pytest.mark.parametrize("level", range(FAMILY.levels))
def test_more_effort_passes_more_often(level):
    passed = {}
    for effort in EFFORTS:
        tasks = [FAMILY.generate("train", level, seed) for seed in range(80)]
        results = [play(FAMILY, t, FAMILY.demonstrate(t, Style(effort=effort, seed=0)))[0] for t in tasks]
        passed[effort] = sum(result.status == "pass" for result in results) / len(results)
    assert passed["low"] < passed["high"] < passed["max"], passed
    assert passed["max"] > 0.9


def _day_task() -> Task:
    return next(t for seed in range(100) if _moves(t := FAMILY.generate("train", 3, seed)))


def _moves(task: Task) -> bool:
    return {"staff", "mail"} <= {event["kind"] for event in task.data["events"] if event["day"] == 2}


def test_what_changes_overnight_changes_what_is_right():
    task = _day_task()
    later = next(c for data in task.data["criteria"] if (c := Criterion.parse(data)).entry and c.entry.day == 2)
    asked = task.data["events"][later.event]
    stale = Entry(store="chat", day=2, to=task.data["staff"][asked["who"]], text=asked["text"].split()[-2])
    assert later.entry != stale
    assert score([later], _final([stale])).score == 0.0
    assert score([later], _final([later.entry])).status == "pass"


def test_every_criterion_but_the_question_names_its_event():
    for level in (2, 3, 4):
        for seed in range(30):
            task = FAMILY.generate("dev", level, seed)
            for data in task.data["criteria"]:
                assert task.data["events"][data["event"]]["kind"] == "mail"


def test_hostile_text_stays_text():
    task = FAMILY.generate("train", 2, 0)
    world = FAMILY.open(task, seed=0)
    hostile = "x'); DROP TABLE staff; UPDATE staff SET boss='me'; --"
    for tool, arguments in (
        ("mail_search", {"query": hostile}),
        ("mail_send", {"to": hostile, "text": hostile}),
        ("note_write", {"title": hostile, "text": hostile}),
        ("lookup", {"key": hostile}),
    ):
        world.call(Call(tool=tool, arguments=arguments))
    assert [entry["to"] for entry in world.final(None)["written"]] == [hostile]
    answers = {world.call(Call(tool="lookup", arguments={"key": "Ann"})).text for _ in range(30)}
    assert answers == {"error: busy", task.data["staff"]["Ann"]}
    world.close()


def test_the_last_day_does_not_end():
    task = FAMILY.generate("train", 4, 1)
    world = FAMILY.open(task, seed=0)
    seen = [world.call(Call(tool="next_day", arguments={})).text for _ in range(4)]
    assert seen == ["day 2", "day 3", "error: this is the last day", "error: this is the last day"]
    assert world.final("done")["day"] == 3
    world.close()


def test_tools_that_are_not_offered_are_not_there():
    world = FAMILY.open(FAMILY.generate("train", 0, 0), seed=0)
    assert world.call(Call(tool="mail_send", arguments={"to": "Ann", "text": "x"})).text == "error: no such tool"
    assert world.final(None)["written"] == []
    world.close()

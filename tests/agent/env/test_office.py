"""The office: applications do what their counterparts do, days pass, every event's criterion is judged by what stands there."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninefold.agent.env.office import Office
from ninefold.agent.env.office.clock import CLOSES, DAY, OPENS, moment, parsed, told
from ninefold.agent.env.office.criteria import Criterion, Harm, judge, score
from ninefold.agent.env.office.desk import Desk
from ninefold.agent.env.office.entry import Entry
from ninefold.agent.env.office.family import criteria
from ninefold.agent.env.office.rules import Rule, read_rules
from ninefold.agent.env.office.seat import ME, first_line
from ninefold.agent.env.office.stream import Event
from ninefold.agent.env.office.week import OFFICES
from ninefold.agent.env.office.wording import Wording
from ninefold.agent.env.office.world import OVER, OfficeWorld
from ninefold.agent.env.play import play
from ninefold.agent.env.script import Recorder
from ninefold.core.protocols import Style
from ninefold.core.types import EFFORTS, Call, Task

FAMILY = Office()


def event(id: str, who: str, tool: str, at: int | None = 0, /, **arguments: str) -> Event:
    return Event(id=id, who=who, tool=tool, at=at, arguments=arguments)


PEOPLE = [
    event(f"x{n}", "office", "people_set", name=name, title="clerk", team="Mill", room=str(n), boss="Cleo Lund")
    for n, name in enumerate(("Ada Berg", "Ben Holt", "Cleo Lund"))
]
EVENTS = [
    *PEOPLE,
    event("x8", "office", "chat_open", name="#all"),
    event("x9", "office", "canvas_open", name="Work", columns="open, done"),
    event("n1", "Ada Berg", "note_create", parent="", title="Plan", text="first\nsecond"),
    event(
        "c1", "Ada Berg", "canvas_create", board="Work", column="open", title="T", text="", owner="Ben Holt", due="day 1 10:00"
    ),
    event("e1", "Ben Holt", "calendar_create", title="Call", start="day 1 10:00", minutes="60", people="Ben Holt, me"),
    event("m1", "Ada Berg", "mail_send", moment(1, 9, 30), to="me, Ben Holt", subject="Tea", text="Green tea?\nThanks"),
    event("m2", "Ben Holt", "mail_reply", moment(2, 9, 5), thread="m1", text="Black."),
    Event(
        id="p1",
        who="Ben Holt",
        tool="chat_send",
        arguments={"channel": "@me", "text": "It is 7."},
        on={"tool": "chat_send", "channel": "@Ben Holt", "text": "number"},
        delay=10,
    ),
    Event(id="p2", who="Ben Holt", tool="chat_send", arguments={"channel": "@me", "text": "No, 8."}, follows="p1", delay=5),
]


@pytest.fixture
def world() -> OfficeWorld:
    task = FAMILY.generate("train", 1, 0)
    return OfficeWorld(task, Desk.open(EVENTS, 2))


def ask(world: OfficeWorld, tool: str, /, **arguments: str) -> str:
    return world.call(Call(tool=tool, arguments=arguments)).text


def left(world: OfficeWorld) -> list[tuple[str, str, str, str]]:
    return [(e["kind"], e["place"], e["to"], e["line"]) for e in world.final(None)["written"]]


def test_time_passes_while_one_waits_and_stops_at_what_arrives(world: OfficeWorld) -> None:
    assert ask(world, "clock_now") == "it is day 1 09:00"
    assert ask(world, "mail_search", query="tea") == "no mail"
    assert ask(world, "mail_reply", thread="m1", text="early") == "error: there is no thread m1"
    assert ask(world, "clock_wait", until="next") == "it is day 1 09:30\nday 1 09:30: mail m1 from Ada Berg"
    assert ask(world, "clock_wait", until="next or day 1 09:45") == "it is day 1 09:45"
    assert ask(world, "clock_wait", until="day 1 09:00") == "error: it is day 1 09:45 already"
    assert ask(world, "clock_wait", until="next") == "it is day 2 09:00"
    assert ask(world, "clock_wait", until="day 9 09:00").startswith(f"it is day 2 18:00, {OVER}\nday 2 09:05: mail in m1")
    assert ask(world, "clock_wait", until="next") == f"error: {OVER}"


def test_somebody_answers_once_asked_and_thinks_again(world: OfficeWorld) -> None:
    assert ask(world, "chat_send", channel="@ben holt", text="Hello?") == "posted as p-1"
    ask(world, "chat_send", channel="@Ben Holt", text="What is your NUMBER?")
    assert "day 1 09:10: chat in @Ben Holt" in ask(world, "clock_wait", until="day 1 09:12")
    assert ask(world, "chat_channels") == "#all\n@Ben Holt (1 unread)"
    assert ask(world, "chat_read", channel="@Ben Holt").splitlines()[-1] == "p1 | day 1 09:10 | Ben Holt: It is 7."
    ask(world, "clock_wait", until="day 1 09:20")
    assert ask(world, "chat_search", query="no, 8").startswith("@Ben Holt | p2")


def test_mail_has_threads_labels_and_operators(world: OfficeWorld) -> None:
    ask(world, "clock_wait", until="day 2 10:00")
    listed = ask(world, "mail_search", query="is:unread").splitlines()
    assert listed == [
        "m1 | day 2 09:05 | Ben Holt | Re: Tea: Black.",
        "m1 | day 1 09:30 | Ada Berg | Tea: Green tea? Thanks",
    ]
    assert ask(world, "mail_read", thread="m1").startswith("day 1 09:30 Ada Berg to Ben Holt, me: Tea\nGreen tea?\nThanks\n\n")
    assert ask(world, "mail_search", query="is:unread") == "no mail"
    assert ask(world, "mail_reply", thread="m1", text="Noted\nme") == "sent to Ada Berg, Ben Holt"
    assert ask(world, "mail_forward", thread="m1", to="cleo lund", text="fyi") == "sent to Cleo Lund"
    ask(world, "mail_label", thread="m1", label="Drinks")
    ask(world, "mail_label", thread="m1", label="archive")
    for query, count in (
        ("from:ben", 1),
        ("label:drinks", 4),
        ("day:1 subject:tea", 1),
        ('"green tea"', 1),
        ("green black", 0),
    ):
        assert ask(world, "mail_search", query=query).count("m1 |") == count, query
    assert left(world) == [("mail", "m1", "", "noted"), ("mail", "m1", "Cleo Lund", "fyi"), ("label", "m1", "", "drinks")]
    ask(world, "mail_unlabel", thread="m1", label="drinks")
    ask(world, "mail_label", thread="m1", label="trash")
    assert ask(world, "mail_search", query="tea") == "no mail"


def test_nobody_changes_what_is_not_theirs(world: OfficeWorld) -> None:
    ask(world, "chat_send", channel="@Ben Holt", text="number?")
    ask(world, "clock_wait", until="day 1 10:30")
    assert ask(world, "chat_edit", post="p1", text="It is 9.") == "error: only its author can change a post"
    assert ask(world, "chat_delete", post="p1").startswith("error")
    assert ask(world, "calendar_move", meeting="e1", start="day 2 10:00") == "error: only Ben Holt can change this meeting"
    assert ask(world, "calendar_cancel", meeting="e1").startswith("error")
    assert ask(world, "people_set", name="Ada Berg", title="head", team="", room="", boss="") == "error: no such tool"
    assert world.call(Call(tool="mail_reply", arguments={"thread": "m1", "text": "x", "at": "day 1 09:00"})).text.startswith(
        "error"
    )


def test_an_edited_post_is_as_late_as_its_edit(world: OfficeWorld) -> None:
    ask(world, "chat_send", channel="#all", text="draft")
    ask(world, "clock_wait", until="day 1 11:00")
    ask(world, "chat_edit", post="p-1", text="final")
    ask(world, "chat_react", post="p-1", emoji=":tada:")
    (post, reaction) = world.final(None)["written"]
    assert (post["line"], post["at"]) == ("final", moment(1, 11))
    assert (reaction["kind"], reaction["line"]) == ("reaction", "tada")
    ask(world, "chat_delete", post="p-1")
    assert [entry[0] for entry in left(world)] == ["reaction"]


def test_boards_know_what_is_late_and_pages_who_wrote(world: OfficeWorld) -> None:
    ask(world, "clock_wait", until="day 1 11:00")
    ask(world, "canvas_submit", card="c1", text="here")
    ask(world, "canvas_move", card="c1", column="Done")
    assert "submitted day 1 11:00 (late) by me: here" in ask(world, "canvas_card", card="c1")
    assert ask(world, "canvas_move", card="c1", column="gone") == "error: columns are open, done, not gone"
    assert ask(world, "canvas_search", query="done t") == "c1 | T | Work, done"
    assert ask(world, "note_search", query="second") == "n1 | Plan | n1.2: second"
    ask(world, "note_edit", block="n1.2", text="Third.")
    ask(world, "note_append", page="n1", text="fourth")
    ask(world, "note_create", parent="", title="my own", text="nobody minds")
    assert ask(world, "note_read", page="n1").splitlines()[1:3] == ["n1.1: first", "n1.2: Third."]
    assert left(world) == [
        ("block", "n1.2", "", "third"),
        ("block", "n1", "", "fourth"),
        ("column", "c1", "done", ""),
        ("submission", "c1", "", "here"),
    ]


def test_calendars_tell_conflicts(world: OfficeWorld) -> None:
    made = ask(world, "calendar_create", title="Talk", start="day 1 10:30", minutes="30", people="Ben Holt, Ada Berg")
    assert made == "meeting e-1; conflicts: Ben Holt: Call 10:00–11:00"
    assert ask(world, "calendar_move", meeting="e-1", start="day 1 11:00") == "moved"
    assert ask(world, "calendar_list", person="Ben Holt", day="1").splitlines() == [
        "e1 | 10:00–11:00 | Call (yes)",
        "e-1 | 11:00–11:30 | Talk (invited)",
    ]
    assert ask(world, "calendar_answer", meeting="e1", answer="no") == "answered"
    assert ask(world, "calendar_list", person="me", day="1") == "free"
    assert left(world) == [
        ("meeting", "talk", "Ada Berg, Ben Holt", "day 1 11:00, 30 minutes"),
        ("answer", "e1", "", "no"),
    ]


ENTRIES = st.builds(
    Entry, kind=st.just("mail"), place=st.sampled_from(["m1", "m2"]), line=st.sampled_from(["yes", "no", "yes?"])
)


def final_of(entries: list[Entry], at: int) -> dict[str, object]:
    fields = ("kind", "place", "to", "line")
    return {"written": [{**{name: getattr(entry, name) for name in fields}, "at": at} for entry in entries]}


@given(wanted=st.lists(ENTRIES, min_size=1, max_size=5), kept=st.integers(0, 5), strays=st.lists(ENTRIES, max_size=3))
def test_a_score_is_the_share_met_less_the_strays(wanted: list[Entry], kept: int, strays: list[Entry]) -> None:
    asked = [Criterion(event=f"m{n}", about="x", entries=(entry,), after=5, by=9) for n, entry in enumerate(wanted)]
    surplus = [Entry(kind="chat", place="#all", line=stray.line) for stray in strays]
    costs = sum(not stray.free for stray in surplus)
    result = score(asked, [], final_of([*wanted[:kept], *surplus], at=7))
    met = min(kept, len(wanted))
    assert result.score == pytest.approx(max(0, met - costs) / len(wanted))
    assert (result.status == "pass") == (met == len(wanted) and not costs)
    early = score(asked, [], final_of(wanted, at=4))
    assert (early.score, early.status) == (0.0, "fail")


def test_harm_takes_all() -> None:
    asked = [Criterion(event="m1", about="x", entries=(Entry(kind="mail", place="m1", line="yes"),), after=0, by=9)]
    harm = Harm(why="it was deleted", kind="label", place="m2", line="trash")
    done = [asked[0].entries[0], Entry(kind="label", place="m2", line="trash")]
    assert score(asked, [harm], final_of(done, at=1)).detail == "it was deleted"
    assert score(asked, [harm], final_of(done[:1], at=1)).status == "pass"
    assert judge(asked, [harm], final_of(done, at=1)).met == (True,)


@given(st.integers(1, 99), st.integers(0, DAY - 1))
def test_times_are_read_as_they_are_told(day: int, minute: int) -> None:
    at = moment(day, 0, minute)
    assert parsed(told(at)) == at
    assert parsed(f"{told(at)} or so") is None


@given(st.integers(0, 999), st.none() | st.integers(OPENS, 5 * DAY), st.integers(0, 999), st.integers(0, 5 * DAY))
def test_rules_are_read_as_they_stand(value: int, changes: int | None, later: int, at: int) -> None:
    rule = Rule(value=value, changes=changes, later=later if changes is not None else 0)
    assert read_rules(f"Title\nn1.1: {rule.line('days in a row')}\nn1.2: Some talk. Costs: none.") == {"days in a row": rule}
    assert rule.at(at) == (value if changes is None or at < changes else later)


@given(st.text(st.characters(categories=["L", "Nd"]), min_size=1), st.integers(0, 10**6), st.integers(0, 9))
def test_a_wording_is_read_as_it_was_said(name: str, number: int, seed: int) -> None:
    wording = Wording("Give {name} exactly {number}.", "It is {number} that {name} gets, (no more)?")
    said = wording.say(Random(seed), name=name, number=number)
    assert wording.read(f"{said}\nand talk") == {"name": name, "number": str(number)}
    assert wording.read(f"{said} and more") is None


def test_first_lines_do_not_hang_on_case_and_spaces() -> None:
    assert first_line(" Paid  Back 12. \nmore") == "paid back 12"
    assert first_line(" \n ") == ""


@pytest.mark.parametrize("level", [0, 1, 2])
def test_more_effort_does_better_and_max_passes(level: int) -> None:
    mean: dict[str, float] = {}
    for effort in EFFORTS:
        tasks = [FAMILY.generate("train", level, seed) for seed in range(40)]
        results = [play(FAMILY, task, FAMILY.demonstrate(task, Style(effort=effort, seed=0)))[0] for task in tasks]
        mean[effort] = sum(result.score for result in results) / len(results)
    assert mean["low"] < mean["high"] < mean["max"] == 1.0, mean


def test_every_kind_of_matter_occurs_and_names_its_event() -> None:
    abouts: set[str] = set()
    for seed in range(6):
        task = FAMILY.generate("dev", 3, seed)
        happen: Mapping[str, int] = {one["id"]: one.get("at") or 0 for one in task.data["events"]}
        for criterion in criteria(task):
            abouts.add(criterion.about)
            assert criterion.after >= 0
            assert happen[criterion.event] <= criterion.by
            assert criterion.by < 3 * DAY
        assert len(criteria(task)) > 40
    assert len(abouts) >= sum(len(matters) for matters in OFFICES.values()) + 3


def test_what_changes_changes_what_is_right() -> None:
    """The last number that a rule has is not right for all who ask: who reads once is wrong somewhere."""
    task = FAMILY.generate("train", 3, 1)
    changed = [one for one in task.data["events"] if one["tool"] == "note_edit"]
    assert changed
    for one in changed:
        (rule,) = read_rules(one["arguments"]["text"]).values()
        assert rule.changes == one["at"]
        assert rule.at(one["at"] - 1) != rule.at(one["at"])


def test_a_task_tells_nothing_of_what_is_to_come() -> None:
    task = FAMILY.generate("train", 2, 0)
    world = FAMILY.open(task, seed=0)
    seen = "\n".join(
        [
            ask(world, "mail_search", query=""),
            ask(world, "chat_search", query=""),
            ask(world, "note_search", query='"until day"'),
        ]
    )
    later = [one for one in task.data["events"] if (one.get("at") or 0) > OPENS and one["tool"].startswith("mail_")]
    assert later
    assert not [one["id"] for one in later if f"{one['id']} |" in seen]
    assert seen.endswith("\nnothing"), "a rule's change stands there before it is made"
    world.close()


def test_the_errand_is_fixed_phrases_around_names() -> None:
    phrases = sorted(FAMILY.phrases(), key=len, reverse=True)
    for seed in range(30):
        task = FAMILY.generate("train", 0, seed)
        world = FAMILY.open(task, seed=0)
        assert len(task.tools) == 4
        for text in (task.instruction, ask(world, "mail_search", query="is:unread")):
            rest = text
            for phrase in phrases:
                rest = rest.replace(phrase, "")
            assert len(rest.strip()) < 8, (text, rest)
        world.close()


@pytest.mark.full
@pytest.mark.parametrize("seed", range(4))
def test_a_long_week_takes_thousands_of_calls(seed: int) -> None:
    task: Task = FAMILY.generate("heldout", 4, seed)
    recorder = Recorder(FAMILY.demonstrate(task, Style(effort="max", seed=seed)))
    result, final = play(FAMILY, task, recorder)
    assert (result.status, result.score) == ("pass", 1.0), result
    assert len(recorder.moves) > 2_000
    assert len(task.data["criteria"]) > 200
    assert final["now"] == moment(5, 0) + CLOSES
    assert ME not in {entry["to"] for entry in final["written"]}

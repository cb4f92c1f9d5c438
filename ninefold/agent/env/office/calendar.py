"""Calendar: meetings with people, who answer; conflicts are told and not forbidden."""

from __future__ import annotations

from collections.abc import Iterator

from ninefold.agent.env.office.clock import DAY, hours, told
from ninefold.agent.env.office.entry import Entry, Written
from ninefold.agent.env.office.seat import Seat, first_line, text_of, time_of
from ninefold.agent.harness.executor.operations import Refused
from ninefold.core.protocols import Tool

TOOLS = (
    Tool(
        name="calendar_list",
        description="A person's meetings of a day (`day` is its number; `me` is you).",
        parameters={"person": "string", "day": "string"},
    ),
    Tool(
        name="calendar_create",
        description="Set up a meeting at a time like `day 2 10:30`, for some minutes, with people separated by commas.",
        parameters={"title": "string", "start": "string", "minutes": "string", "people": "string"},
    ),
    Tool(
        name="calendar_move",
        description="Give a meeting that you set up another start.",
        parameters={"meeting": "string", "start": "string"},
    ),
    Tool(name="calendar_cancel", description="Cancel a meeting that you set up.", parameters={"meeting": "string"}),
    Tool(
        name="calendar_answer",
        description="Answer an invitation: yes, no or maybe.",
        parameters={"meeting": "string", "answer": "string"},
    ),
)

ANSWERS = ("yes", "no", "maybe")


def agenda(seat: Seat, person: str, day: str) -> str:
    if not day.strip().isdecimal():
        raise Refused(f"{day[:20]!r} is no day; write its number")
    start = (int(day.strip()[:6]) - 1) * DAY
    rows = _busy(seat, seat.person(person), start, start + DAY)
    lines = [f"{id} | {hours(at)}–{hours(at + minutes)} | {title} ({answer})" for id, title, at, minutes, answer in rows]
    return "\n".join(lines) or "free"


def create(seat: Seat, title: str, start: str, minutes: str, people: str) -> str:
    at, names = time_of(start), seat.people(people)
    if not minutes.strip().isdecimal() or not 5 <= int(minutes.strip()[:6]) <= DAY:
        raise Refused(f"{minutes[:20]!r} is no length; write minutes, from 5")
    id = seat.new_id("e")
    length = int(minutes)
    clashes = _clashes(seat, names, at, length, "")
    seat.write("INSERT INTO meeting VALUES (?, ?, ?, ?, ?, ?, ?)", id, text_of(title), at, length, seat.who, seat.who, seat.now)
    for name in names:
        answer = "yes" if name == seat.who else "invited"
        seat.write("INSERT INTO attendee VALUES (?, ?, ?, ?, ?)", id, name, answer, "", seat.now)
    return f"meeting {id}{clashes}"


def move(seat: Seat, meeting: str, start: str) -> str:
    at, minutes = time_of(start), _own(seat, meeting)
    names = [row[0] for row in seat.rows("SELECT person FROM attendee WHERE meeting = ?", meeting)]
    clashes = _clashes(seat, names, at, minutes, meeting)
    seat.write("UPDATE meeting SET start = ?, who = ?, at = ? WHERE id = ?", at, seat.who, seat.now, meeting)
    return f"moved{clashes}"


def cancel(seat: Seat, meeting: str) -> str:
    _own(seat, meeting)
    seat.write("DELETE FROM meeting WHERE id = ?", meeting)
    seat.write("DELETE FROM attendee WHERE meeting = ?", meeting)
    return "cancelled"


def answer(seat: Seat, meeting: str, answer: str) -> str:
    said = answer.strip().casefold()
    if said not in ANSWERS:
        raise Refused(f"answers are {', '.join(ANSWERS)}, not {answer[:20]}")
    if seat.row("SELECT 1 FROM attendee WHERE meeting = ? AND person = ?", meeting, seat.who) is None:
        raise Refused(f"you are not invited to a meeting {meeting[:40]}")
    values = (said, seat.who, seat.now, meeting, seat.who)
    seat.write("UPDATE attendee SET answer = ?, who = ?, at = ? WHERE meeting = ? AND person = ?", *values)
    return "answered"


def _busy(seat: Seat, person: str, start: int, end: int) -> list[tuple[str, str, int, int, str]]:
    """(id, title, start, minutes, answer) of a person's meetings that overlap a span, in order; declined ones take no time."""
    return seat.rows(
        "SELECT id, title, start, minutes, answer FROM meeting JOIN attendee ON meeting.id = attendee.meeting "
        "WHERE person = ? AND start < ? AND start + minutes > ? AND answer != 'no' ORDER BY start, meeting.rowid",
        person,
        end,
        start,
    )


def _clashes(seat: Seat, names: list[str], start: int, minutes: int, but: str) -> str:
    """What the people have at that time, other than that meeting."""
    found = [
        f"{name}: {title} {hours(at)}–{hours(at + length)}"
        for name in names
        for id, title, at, length, _ in _busy(seat, name, start, start + minutes)
        if id != but
    ]
    return f"; conflicts: {'; '.join(found[:10])}" if found else ""


def _own(seat: Seat, meeting: str) -> int:
    """Its length in minutes. Raises Refused where the meeting is none of one's own."""
    row = seat.row("SELECT organizer, minutes FROM meeting WHERE id = ?", meeting)
    if row is None:
        raise Refused(f"there is no meeting {meeting[:40]}")
    if row[0] != seat.who:
        raise Refused(f"only {row[0]} can change this meeting")
    return row[1]


def meets(title: str, start: int, minutes: int, people: list[str]) -> Entry:
    """A meeting as rules see it."""
    line = f"{told(start)}, {minutes} minutes"
    return Entry(kind="meeting", place=first_line(title), to=", ".join(sorted(people)), line=line)


def written(seat: Seat) -> Iterator[Written]:
    """Meetings that the assistant set up, where they lie now, and its answers to invitations."""
    for id, title, start, minutes, at in seat.rows(
        "SELECT id, title, start, minutes, at FROM meeting WHERE organizer = ? ORDER BY rowid", seat.who
    ):
        people = [row[0] for row in seat.rows("SELECT person FROM attendee WHERE meeting = ?", id)]
        yield Written(entry=meets(title, start, minutes, people), at=at)
    for meeting, said, at in seat.rows("SELECT meeting, answer, at FROM attendee WHERE who = ? ORDER BY rowid", seat.who):
        yield Written(entry=Entry(kind="answer", place=meeting, line=said), at=at)


ACTIONS = {
    "calendar_list": agenda,
    "calendar_create": create,
    "calendar_move": move,
    "calendar_cancel": cancel,
    "calendar_answer": answer,
}

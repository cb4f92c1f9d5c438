"""Mail: threads, labels and search with operators, as Gmail has them."""

from __future__ import annotations

from collections.abc import Iterator

from ninefold.agent.env.office.clock import DAY, told
from ninefold.agent.env.office.entry import Entry, Written
from ninefold.agent.env.office.seat import ME, SHOWN, Seat, first_line, listed, text_of, words
from ninefold.agent.harness.executor.operations import Refused
from ninefold.core.protocols import Tool

TOOLS = (
    Tool(
        name="mail_search",
        description=(
            "Mail that fits all words of the query, newest first: thread, time, sender, subject, beginning. Operators: "
            'is:unread, from:, to:, subject:, label:, day:2, "a phrase", page:2.'
        ),
        parameters={"query": "string"},
    ),
    Tool(name="mail_read", description="All mail of a thread; it is unread no more.", parameters={"thread": "string"}),
    Tool(
        name="mail_send",
        description="Begin a thread; names of several recipients are separated by commas.",
        parameters={"to": "string", "subject": "string", "text": "string"},
    ),
    Tool(name="mail_reply", description="Answer everybody on a thread.", parameters={"thread": "string", "text": "string"}),
    Tool(
        name="mail_forward",
        description="Send a thread on to somebody, with a text before it.",
        parameters={"thread": "string", "to": "string", "text": "string"},
    ),
    Tool(
        name="mail_label",
        description="Put a label on a thread; `trash` removes it from every search.",
        parameters={"thread": "string", "label": "string"},
    ),
    Tool(
        name="mail_unlabel",
        description="Take a label off a thread.",
        parameters={"thread": "string", "label": "string"},
    ),
)

UNREAD, TRASH = "unread", "trash"
_HANDLING = (UNREAD, "inbox", "archive", "starred", "todo", "done")
"""Labels by which one keeps one's own mailbox in order: they say nothing to anybody."""
_FIELDS = {"from": "sender", "to": "recipients", "subject": "subject"}


def search(seat: Seat, query: str) -> str:
    """One line for each mail."""
    found, page = words(query)
    rules: list[str] = ["thread NOT IN (SELECT thread FROM label WHERE label = ?)"]
    values: list[object] = [TRASH]
    for word in found:
        rule, value = _rule(word)
        rules.append(rule)
        values.append(value)
    rows = seat.rows(
        f"SELECT thread, at, sender, subject, text FROM mail WHERE {' AND '.join(rules)} "
        "ORDER BY at DESC, rowid DESC LIMIT ? OFFSET ?",
        *values,
        SHOWN + 1,
        page * SHOWN,
    )
    return listed([_line(*row) for row in rows], page, "no mail")


def _rule(word: str) -> tuple[str, object]:
    operator, colon, value = word.partition(":")
    if colon and operator in _FIELDS:
        return f"instr(lower({_FIELDS[operator]}), ?)", value
    if colon and operator in ("is", "label"):
        return "thread IN (SELECT thread FROM label WHERE label = ?)", value
    if colon and operator == "day" and value.isdecimal():
        return f"at / {DAY} + 1 = ?", int(value[:6])
    return "instr(lower(sender || ' ' || subject || ' ' || text), ?)", word


def _line(thread: str, at: int, sender: str, subject: str, text: str) -> str:
    beginning = " ".join(text.split())
    return f"{thread} | {told(at)} | {sender} | {subject}: {beginning[:60]}" + ("…" if len(beginning) > 60 else "")


def read(seat: Seat, thread: str) -> str:
    """Every mail of the thread, oldest first."""
    _known(seat, thread)
    seat.write("DELETE FROM label WHERE thread = ? AND label = ?", thread, UNREAD)
    labels = [row[0] for row in seat.rows("SELECT label FROM label WHERE thread = ? ORDER BY label", thread)]
    rows = seat.rows("SELECT sender, recipients, at, subject, text FROM mail WHERE thread = ? ORDER BY at, rowid", thread)
    mails = [f"{told(at)} {sender} to {to}: {subject}\n{text}" for sender, to, at, subject, text in rows]
    return "\n\n".join([*mails, *([f"labels: {', '.join(labels)}"] if labels else [])])


def send(seat: Seat, to: str, subject: str, text: str) -> str:
    thread = seat.new_id("m")
    return _write(seat, thread, thread, seat.people(to), subject.strip(), text, begins=True)


def reply(seat: Seat, thread: str, text: str) -> str:
    rows = _known(seat, thread)
    people = {name for sender, recipients, _ in rows for name in (sender, *recipients.split(", "))} - {seat.who}
    return _write(seat, seat.new_id("m"), thread, sorted(people), f"Re: {rows[0][2]}", text)


def forward(seat: Seat, thread: str, to: str, text: str) -> str:
    rows = _known(seat, thread)
    return _write(seat, seat.new_id("m"), thread, seat.people(to), f"Fwd: {rows[0][2]}", text, forwarded=True)


def _known(seat: Seat, thread: str) -> list[tuple[str, str, str]]:
    """Sender, recipients and subject of each mail of the thread. Raises Refused where there is none."""
    rows = seat.rows("SELECT sender, recipients, subject FROM mail WHERE thread = ? ORDER BY at, rowid", thread)
    if not rows:
        raise Refused(f"there is no thread {thread[:40]}")
    return rows


def _write(
    seat: Seat, id: str, thread: str, to: list[str], subject: str, text: str, *, begins: bool = False, forwarded: bool = False
) -> str:
    way = "new" if begins else "forward" if forwarded else "reply"
    values = (id, thread, seat.now, seat.who, ", ".join(to), subject, text_of(text), way)
    seat.write("INSERT INTO mail VALUES (?, ?, ?, ?, ?, ?, ?, ?)", *values)
    if ME in to:
        seat.write("INSERT OR REPLACE INTO label VALUES (?, ?, ?, ?)", thread, UNREAD, seat.who, seat.now)
    return f"sent to {', '.join(to)}"


def label(seat: Seat, thread: str, label: str) -> str:
    _known(seat, thread)
    name = text_of(label).casefold()[:60]
    seat.write("INSERT OR REPLACE INTO label VALUES (?, ?, ?, ?)", thread, name, seat.who, seat.now)
    return "labelled"


def unlabel(seat: Seat, thread: str, label: str) -> str:
    _known(seat, thread)
    seat.write("DELETE FROM label WHERE thread = ? AND label = ?", thread, label.strip().casefold())
    return "taken off"


def written(seat: Seat) -> Iterator[Written]:
    """Mail that the assistant sent, and labels it put on."""
    for thread, at, to, text, way in seat.rows(
        "SELECT thread, at, recipients, text, way FROM mail WHERE sender = ? ORDER BY rowid", seat.who
    ):
        place = "new" if way == "new" else thread
        entry = Entry(kind="mail", place=place, to="" if way == "reply" else to, line=first_line(text))
        yield Written(entry=entry, at=at)
    for thread, label, at in seat.rows("SELECT thread, label, at FROM label WHERE who = ? ORDER BY rowid", seat.who):
        if label not in _HANDLING:
            yield Written(entry=Entry(kind="label", place=thread, line=label), at=at)


ACTIONS = {
    "mail_search": search,
    "mail_read": read,
    "mail_send": send,
    "mail_reply": reply,
    "mail_forward": forward,
    "mail_label": label,
    "mail_unlabel": unlabel,
}

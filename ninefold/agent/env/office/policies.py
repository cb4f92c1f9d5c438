"""Who plays office tasks: gold and demonstrators."""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random

from ninefold.agent.env.office import everyday
from ninefold.agent.env.office.clerk import Clerk, Message, mails, posts
from ninefold.agent.env.office.clock import OPENS, told
from ninefold.agent.env.office.criteria import Criterion
from ninefold.agent.env.office.entry import Entry
from ninefold.agent.env.office.errand import BUT, END, NOT, TELL, WHERE
from ninefold.agent.env.office.seat import ME
from ninefold.agent.env.office.week import CONVENTIONS, OFFICES
from ninefold.agent.env.script import Script, Steps, use
from ninefold.core.protocols import Move, Style
from ninefold.core.seeds import rng_of
from ninefold.core.types import Effort, Task

HEEDS: Mapping[Effort, float] = {"low": 0.0, "high": 0.6, "max": 1.0}
"""How often a demonstrator of level 0 heeds a second mail."""

_MATTERS = (*(matter for office in OFFICES.values() for matter in office), *everyday.MATTERS)


def gold(task: Task) -> Script:
    """Does what the criteria ask for, each thing at the first minute at which it may be done."""
    return Script(_meet(task))


def _meet(task: Task) -> Steps:
    happens = {event["id"]: event.get("at") or 0 for event in task.data["events"]}
    criteria = [Criterion.parse(data) for data in task.data["criteria"]]
    begins = [(max(criterion.after, happens[criterion.event]), place) for place, criterion in enumerate(criteria)]
    now = OPENS
    for after, place in sorted(begins):
        if after > now:
            now = after
            yield use("clock_wait", until=told(now))
        for entry in criteria[place].entries:
            yield write(entry)
    yield Move(response="done")


def write(entry: Entry) -> Move:
    """The move that leaves an entry, were it the right time."""
    match entry.kind:
        case "mail" if entry.place == "new":
            return use("mail_send", to=entry.to, subject="-", text=entry.line)
        case "mail" if entry.to:
            return use("mail_forward", thread=entry.place, to=entry.to, text=entry.line)
        case "mail":
            return use("mail_reply", thread=entry.place, text=entry.line)
        case "label":
            return use("mail_label", thread=entry.place, label=entry.line)
        case "chat" if entry.to:
            return use("chat_reply", post=entry.to, text=entry.line)
        case "chat":
            return use("chat_send", channel=entry.place, text=entry.line)
        case "reaction":
            return use("chat_react", post=entry.place, emoji=entry.line)
        case "block" if "." in entry.place:
            return use("note_edit", block=entry.place, text=entry.line)
        case "block":
            return use("note_append", page=entry.place, text=entry.line)
        case "card":
            return use("canvas_create", board=entry.place, column=entry.to, title=entry.line, text="")
        case "column":
            return use("canvas_move", card=entry.place, column=entry.to)
        case "submission":
            return use("canvas_submit", card=entry.place, text=entry.line)
        case "meeting":
            start, _, minutes = entry.line.removesuffix(" minutes").partition(", ")
            return use("calendar_create", title=entry.place, start=start, minutes=minutes, people=entry.to)
        case "answer":
            return use("calendar_answer", meeting=entry.place, answer=entry.line)


def demonstrate(task: Task, style: Style) -> Script:
    """Acts on what it observes; how often it looks again follows the effort."""
    rng = rng_of(task.id, style.effort, style.seed)
    slips = rng.random() < style.slip
    if task.level == 0:
        return Script(_run_errand(style.effort, rng, slips))
    slip_at = rng.randrange(1 + 2 * (task.level - 1)) if slips else -1
    return Script(_work(Clerk(effort=style.effort, rng=rng, slip_at=slip_at)))


def _run_errand(effort: Effort, rng: Random, slips: bool) -> Steps:
    (inbox,) = yield use("mail_search", "" if effort == "low" else "mail", query="is:unread")
    texts = [line.split(": ", 1)[1] for line in inbox.text.splitlines() if ": " in line]
    asked = texts[-1]
    change = re.fullmatch(rf"(?:errand: )?{NOT}\w+{BUT}(\w+){re.escape(END)}", texts[0])
    if told_to := re.fullmatch(rf"{TELL}(\w+) (\w+){re.escape(END)}", asked):
        reader, thing = told_to.groups()
    else:
        reader, thing = "", asked.removeprefix(WHERE).split()[0]
    if change and rng.random() < HEEDS[effort]:
        thing = change[1]
    if slips:
        thing = asked.split()[0]
    if reader:
        yield use("chat_send", "" if effort == "low" else thing, channel=f"@{reader}", text=thing)
    else:
        (seen,) = yield use("note_search", "" if effort == "low" else thing, query=thing)
        yield use("mail_reply", thread="m1", text=seen.text.rpartition(": ")[2])
    yield Move(response="done")


def _work(clerk: Clerk) -> Steps:
    """Deals with all that is there, then waits for more, until the last day is over."""
    clerk.note_time((yield from clerk.do("clock_now")))
    if clerk.effort != "low":
        yield from clerk.page(CONVENTIONS)
    while True:
        yield from _read_mail(clerk)
        yield from _read_chat(clerk)
        yield from clerk.due()
        if clerk.over:
            break
        yield from clerk.wait()
    yield Move(response="done")


def _read_mail(clerk: Clerk) -> Steps:
    """Every unread thread, the oldest first."""
    seen_of: dict[str, int] = clerk.memory.setdefault("mails", {})
    found, page = "", 1
    while True:
        listing = yield from clerk.do("mail_search", query=f"is:unread page:{page}" if page > 1 else "is:unread")
        found += listing + "\n"
        page += 1
        if "\nmore: " not in listing:
            break
    threads = dict.fromkeys(line.split(" | ")[0] for line in reversed(found.splitlines()) if line.count(" | ") >= 3)
    for thread in threads:
        text = yield from clerk.do("mail_read", thread=thread)
        written = mails(thread, text)
        for message in written[seen_of.get(thread, 0) :]:
            yield from _handle(clerk, message)
        seen_of[thread] = len(written)


def _read_chat(clerk: Clerk) -> Steps:
    """Every channel with unread posts."""
    known: set[str] = clerk.memory.setdefault("posts", set())
    listing = yield from clerk.do("chat_channels")
    for channel in re.findall(r"^(.+) \(\d+ unread\)$", listing, re.MULTILINE):
        text = yield from clerk.do("chat_read", channel=channel)
        for message in posts(channel, text):
            if message.post not in known and message.who != ME:
                known.add(message.post)
                yield from _handle(clerk, message)


def _handle(clerk: Clerk, message: Message) -> Steps:
    for matter in _MATTERS:
        steps = matter.handle(clerk, message) if message.lines else None
        if steps is not None:
            yield from steps
            return

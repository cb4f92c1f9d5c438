"""Notes: pages within pages, made of blocks that anyone may edit, as Notion has them."""

from __future__ import annotations

from collections.abc import Iterator

from ninefold.agent.env.office.entry import Entry, Written
from ninefold.agent.env.office.seat import SHOWN, Seat, first_line, listed, mentions, text_of, words
from ninefold.agent.harness.executor.operations import Refused
from ninefold.core.protocols import Tool

TOOLS = (
    Tool(
        name="note_search",
        description="Blocks that hold the words, with their page's title: page, title, block. `page:2` shows more.",
        parameters={"query": "string"},
    ),
    Tool(name="note_read", description="A page: its blocks and the pages within it.", parameters={"page": "string"}),
    Tool(
        name="note_create",
        description="Make a page of your own within another one, or at the top where `parent` is empty.",
        parameters={"parent": "string", "title": "string", "text": "string"},
    ),
    Tool(name="note_append", description="Add a block to a page.", parameters={"page": "string", "text": "string"}),
    Tool(name="note_edit", description="Replace the text of a block.", parameters={"block": "string", "text": "string"}),
)


def search(seat: Seat, query: str) -> str:
    """One line for each block."""
    found, page = words(query)
    rules = [*mentions("page.title || ' ' || block.text", found)]
    where = " AND ".join(rule for rule, _ in rules) or "1"
    rows = seat.rows(
        "SELECT page.id, page.title, block.id, block.text FROM block JOIN page ON page.id = block.page "
        f"WHERE {where} ORDER BY block.rowid LIMIT ? OFFSET ?",
        *(value for _, value in rules),
        SHOWN + 1,
        page * SHOWN,
    )
    return listed([f"{id} | {title} | {block}: {_cut(text)}" for id, title, block, text in rows], page, "nothing")


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 80 else text[:80] + "…"


def read(seat: Seat, page: str) -> str:
    """Title, blocks, pages within."""
    title = _page(seat, page)
    blocks = [f"{id}: {text}" for id, text in seat.rows("SELECT id, text FROM block WHERE page = ? ORDER BY rowid", page)]
    inner = [f"page {id}: {name}" for id, name in seat.rows("SELECT id, title FROM page WHERE parent = ? ORDER BY id", page)]
    return "\n".join([title, *blocks, *inner])


def create(seat: Seat, parent: str, title: str, text: str) -> str:
    if parent.strip():
        _page(seat, parent.strip())
    page = seat.new_id("n")
    seat.write("INSERT INTO page VALUES (?, ?, ?, ?)", page, parent.strip(), text_of(title), seat.who)
    for number, line in enumerate(text.splitlines()):
        if line.strip():
            block = f"{page}.{number + 1}"
            seat.write("INSERT INTO block VALUES (?, ?, ?, ?, ?)", block, page, line.strip(), seat.who, seat.now)
    return f"page {page}"


def append(seat: Seat, page: str, text: str) -> str:
    _page(seat, page)
    block = seat.new_id("b")
    seat.write("INSERT INTO block VALUES (?, ?, ?, ?, ?)", block, page, text_of(text), seat.who, seat.now)
    return f"block {block}"


def edit(seat: Seat, block: str, text: str) -> str:
    if seat.row("SELECT 1 FROM block WHERE id = ?", block) is None:
        raise Refused(f"there is no block {block[:40]}")
    seat.write("UPDATE block SET text = ?, who = ?, at = ? WHERE id = ?", text_of(text), seat.who, seat.now, block)
    return "saved"


def _page(seat: Seat, page: str) -> str:
    """Its title. Raises Refused."""
    row = seat.row("SELECT title FROM page WHERE id = ?", page)
    if row is None:
        raise Refused(f"there is no page {page[:40]}")
    return row[0]


def written(seat: Seat) -> Iterator[Written]:
    """Blocks that the assistant wrote on pages of others: added ones by page, edited ones by their id."""
    for block, page, text, at in seat.rows(
        "SELECT block.id, block.page, block.text, block.at FROM block JOIN page ON page.id = block.page "
        "WHERE block.who = ? AND page.who != ? ORDER BY block.rowid",
        seat.who,
        seat.who,
    ):
        place = page if block.startswith("b-") else block
        yield Written(entry=Entry(kind="block", place=place, line=first_line(text)), at=at)


ACTIONS = {"note_search": search, "note_read": read, "note_create": create, "note_append": append, "note_edit": edit}

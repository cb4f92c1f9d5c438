"""Canvas: boards of cards that move through columns, are due, and take submissions, as Canvas's assignments do."""

from __future__ import annotations

from collections.abc import Iterator

from ninefold.agent.env.office.clock import told
from ninefold.agent.env.office.entry import Entry, Written
from ninefold.agent.env.office.seat import SHOWN, Seat, first_line, listed, mentions, text_of, time_of, words
from ninefold.agent.harness.executor.operations import Refused
from ninefold.core.protocols import Tool

TOOLS = (
    Tool(name="canvas_boards", description="The boards and their columns.", parameters={}),
    Tool(name="canvas_board", description="The cards of a board by column.", parameters={"board": "string"}),
    Tool(
        name="canvas_search",
        description="Cards whose board, column, title or owner holds the words. `page:2` shows more.",
        parameters={"query": "string"},
    ),
    Tool(
        name="canvas_card",
        description="A card: column, owner, when it is due, its text and what was submitted.",
        parameters={"card": "string"},
    ),
    Tool(
        name="canvas_create",
        description="Put a new card into a column of a board.",
        parameters={"board": "string", "column": "string", "title": "string", "text": "string"},
    ),
    Tool(name="canvas_move", description="Move a card to another column.", parameters={"card": "string", "column": "string"}),
    Tool(name="canvas_submit", description="Hand in a text for a card.", parameters={"card": "string", "text": "string"}),
)


def boards(seat: Seat) -> str:
    return "\n".join(f"{name}: {columns}" for name, columns in seat.rows("SELECT * FROM board ORDER BY name")) or "no boards"


def board(seat: Seat, board: str) -> str:
    name, columns = _board(seat, board)
    lines = [name]
    for column in columns:
        lines.append(f"{column}:")
        rows = seat.rows('SELECT id, title FROM card WHERE board = ? AND "column" = ? ORDER BY rowid', name, column)
        lines += [f"  {id} | {title}" for id, title in rows]
    return "\n".join(lines)


def search(seat: Seat, query: str) -> str:
    found, page = words(query)
    rules = [*mentions("""board || ' ' || "column" || ' ' || title || ' ' || owner""", found)]
    where = " AND ".join(rule for rule, _ in rules) or "1"
    rows = seat.rows(
        f'SELECT id, title, board, "column" FROM card WHERE {where} ORDER BY rowid LIMIT ? OFFSET ?',
        *(value for _, value in rules),
        SHOWN + 1,
        page * SHOWN,
    )
    return listed([f"{id} | {title} | {board}, {column}" for id, title, board, column in rows], page, "no cards")


def card(seat: Seat, card: str) -> str:
    board, column, title, text, owner, due = _card(seat, card)
    rows = seat.rows("SELECT at, author, text FROM submission WHERE card = ? ORDER BY rowid", card)
    submitted = [f"submitted {told(at)}{' (late)' if due and at > due else ''} by {who}: {said}" for at, who, said in rows]
    when = [f"due {told(due)}"] if due else []
    return "\n".join([f"{title} | {board}, {column} | owner {owner}", *when, text, *submitted])


def create(seat: Seat, board: str, column: str, title: str, text: str, owner: str = "", due: str = "") -> str:
    """Colleagues also say who owns the card and when it is due."""
    name, columns = _board(seat, board)
    where = _column(column, columns)
    id = seat.new_id("c")
    values = (id, name, where, text_of(title), text.strip(), owner or seat.who, time_of(due) if due else 0, seat.who, seat.now)
    seat.write("INSERT INTO card VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", *values, seat.who)
    return f"card {id}"


def move(seat: Seat, card: str, column: str) -> str:
    name, *_ = _card(seat, card)
    where = _column(column, _board(seat, name)[1])
    seat.write('UPDATE card SET "column" = ?, who = ?, at = ? WHERE id = ?', where, seat.who, seat.now, card)
    return f"moved to {where}"


def submit(seat: Seat, card: str, text: str) -> str:
    _card(seat, card)
    seat.write("INSERT INTO submission VALUES (?, ?, ?, ?, ?)", seat.new_id("s"), card, seat.now, seat.who, text_of(text))
    return "submitted"


def open_board(seat: Seat, name: str, columns: str) -> str:
    """Make a board; the office's own operation, offered to nobody."""
    seat.write("INSERT INTO board VALUES (?, ?)", name, columns)
    return "saved"


def _board(seat: Seat, board: str) -> tuple[str, list[str]]:
    """(name, columns). Raises Refused."""
    row = seat.row("SELECT name, columns FROM board WHERE name = ? COLLATE NOCASE", board.strip())
    if row is None:
        raise Refused(f"there is no board {board.strip()[:60]}")
    return row[0], row[1].split(", ")


def _column(column: str, columns: list[str]) -> str:
    given = column.strip().casefold()
    if given not in columns:
        raise Refused(f"columns are {', '.join(columns)}, not {column.strip()[:40]}")
    return given


def _card(seat: Seat, card: str) -> tuple[str, str, str, str, str, int]:
    row = seat.row('SELECT board, "column", title, text, owner, due FROM card WHERE id = ?', card)
    if row is None:
        raise Refused(f"there is no card {card[:40]}")
    return row


def written(seat: Seat) -> Iterator[Written]:
    """Cards that the assistant made, columns it moved cards of others to, and what it handed in."""
    for id, board, column, title, maker, at in seat.rows(
        'SELECT id, board, "column", title, maker, at FROM card WHERE who = ? ORDER BY rowid', seat.who
    ):
        if maker == seat.who:
            yield Written(entry=Entry(kind="card", place=board, to=column, line=first_line(title)), at=at)
        else:
            yield Written(entry=Entry(kind="column", place=id, to=column), at=at)
    for card, at, text in seat.rows("SELECT card, at, text FROM submission WHERE author = ? ORDER BY rowid", seat.who):
        yield Written(entry=Entry(kind="submission", place=card, line=first_line(text)), at=at)


ACTIONS = {
    "canvas_boards": boards,
    "canvas_board": board,
    "canvas_search": search,
    "canvas_card": card,
    "canvas_create": create,
    "canvas_move": move,
    "canvas_submit": submit,
    "canvas_open": open_board,
}

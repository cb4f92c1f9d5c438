"""Chat: channels, direct messages, threads and reactions, as Slack has them."""

from __future__ import annotations

from collections.abc import Iterator

from ninefold.agent.env.office.clock import told
from ninefold.agent.env.office.entry import Entry, Written
from ninefold.agent.env.office.seat import ME, SHOWN, Seat, first_line, listed, mentions, text_of, words
from ninefold.agent.harness.executor.operations import Refused
from ninefold.core.protocols import Tool

TOOLS = (
    Tool(name="chat_channels", description="Channels and direct messages, with how many posts are unread.", parameters={}),
    Tool(
        name="chat_read",
        description="The last posts of a channel (`#name`) or with a person (`@Name`); they are unread no more.",
        parameters={"channel": "string"},
    ),
    Tool(
        name="chat_search",
        description="Posts that hold the words, newest first. `page:2` shows more.",
        parameters={"query": "string"},
    ),
    Tool(
        name="chat_send",
        description="Post in a channel (`#name`) or to a person (`@Name`).",
        parameters={"channel": "string", "text": "string"},
    ),
    Tool(name="chat_reply", description="Answer a post in its thread.", parameters={"post": "string", "text": "string"}),
    Tool(
        name="chat_react", description="React to a post with an emoji's name.", parameters={"post": "string", "emoji": "string"}
    ),
    Tool(name="chat_edit", description="Change a post of your own.", parameters={"post": "string", "text": "string"}),
    Tool(name="chat_delete", description="Delete a post of your own.", parameters={"post": "string"}),
)

_LAST = 40
"""Posts that reading a channel shows."""


def channels(seat: Seat) -> str:
    """One line for each channel that exists."""
    rows = seat.rows(
        "SELECT name, (SELECT count(*) FROM post WHERE channel = name AND post.rowid > seen AND author != ?) "
        "FROM channel ORDER BY name",
        seat.who,
    )
    return "\n".join(name + (f" ({unread} unread)" if unread else "") for name, unread in rows) or "no channels"


def read(seat: Seat, channel: str) -> str:
    """The last posts, oldest first; answers name the post they answer."""
    name = _channel(seat, channel)
    rows = seat.rows("SELECT id, root, at, author, text FROM post WHERE channel = ? ORDER BY rowid DESC LIMIT ?", name, _LAST)
    seat.write("UPDATE channel SET seen = (SELECT coalesce(max(rowid), 0) FROM post) WHERE name = ?", name)
    reactions = seat.rows(
        "SELECT post, emoji, count(*) FROM reaction JOIN post ON id = reaction.post WHERE channel = ? GROUP BY post, emoji",
        name,
    )
    shown = {post: "".join(f" :{emoji}:×{n}" for other, emoji, n in reactions if other == post) for post, _, _ in reactions}
    lines = [_line(*row) + shown.get(row[0], "") for row in reversed(rows)]
    return "\n".join(lines) or "no posts"


def _line(id: str, root: str, at: int, author: str, text: str) -> str:
    return f"{id}{f' (to {root})' if root else ''} | {told(at)} | {author}: {text}"


def search(seat: Seat, query: str) -> str:
    found, page = words(query)
    rules = [*mentions("channel || ' ' || author || ' ' || text", found)]
    where = " AND ".join(rule for rule, _ in rules) or "1"
    rows = seat.rows(
        f"SELECT channel, id, root, at, author, text FROM post WHERE {where} ORDER BY rowid DESC LIMIT ? OFFSET ?",
        *(value for _, value in rules),
        SHOWN + 1,
        page * SHOWN,
    )
    return listed([f"{channel} | {_line(*row)}" for channel, *row in rows], page, "nothing")


def send(seat: Seat, channel: str, text: str) -> str:
    # A colleague's message to the assistant stands in the channel that the assistant knows by that colleague's name.
    name = f"@{seat.who}" if channel == f"@{ME}" else _channel(seat, channel)
    return _post(seat, name, "", text)


def reply(seat: Seat, post: str, text: str) -> str:
    channel, root = _find(seat, post, "channel, root")
    return _post(seat, channel, root or post, text)


def _post(seat: Seat, channel: str, root: str, text: str) -> str:
    id = seat.new_id("p")
    said = text_of(text)
    seat.write("INSERT OR IGNORE INTO channel VALUES (?, 0)", channel)
    seat.write("INSERT INTO post VALUES (?, ?, ?, ?, ?, ?)", id, channel, root, seat.now, seat.who, said)
    return f"posted as {id}"


def react(seat: Seat, post: str, emoji: str) -> str:
    _find(seat, post, "id")
    name = text_of(emoji).strip(":").casefold()[:40]
    seat.write("INSERT OR REPLACE INTO reaction VALUES (?, ?, ?, ?)", post, name, seat.who, seat.now)
    return "done"


def edit(seat: Seat, post: str, text: str) -> str:
    _own(seat, post)
    seat.write("UPDATE post SET text = ?, at = ? WHERE id = ?", text_of(text), seat.now, post)
    return "saved"


def delete(seat: Seat, post: str) -> str:
    _own(seat, post)
    seat.write("DELETE FROM post WHERE id = ?", post)
    return "deleted"


def open_channel(seat: Seat, name: str) -> str:
    """Make a channel; the office's own operation, offered to nobody."""
    seat.write("INSERT OR IGNORE INTO channel VALUES (?, 0)", name)
    return "saved"


def _own(seat: Seat, post: str) -> None:
    (author,) = _find(seat, post, "author")
    if author != seat.who:
        raise Refused("only its author can change a post")


def _find(seat: Seat, post: str, columns: str) -> tuple[str, ...]:
    row = seat.row(f"SELECT {columns} FROM post WHERE id = ?", post)
    if row is None:
        raise Refused(f"there is no post {post[:40]}")
    return row


def _channel(seat: Seat, channel: str) -> str:
    """Its name. Raises Refused where there is no such channel or person."""
    given = channel.strip()
    if given.startswith("@"):
        return f"@{seat.person(given[1:])}"
    row = seat.row("SELECT name FROM channel WHERE name = ? COLLATE NOCASE", given)
    if row is None:
        raise Refused(f"there is no channel {given[:60]!r}; a person is written @Name")
    return row[0]


def written(seat: Seat) -> Iterator[Written]:
    """Posts of the assistant as they stand now, and its reactions."""
    for channel, root, at, text in seat.rows(
        "SELECT channel, root, at, text FROM post WHERE author = ? ORDER BY rowid", seat.who
    ):
        yield Written(entry=Entry(kind="chat", place=channel, to=root, line=first_line(text)), at=at)
    for post, emoji, at in seat.rows("SELECT post, emoji, at FROM reaction WHERE who = ? ORDER BY rowid", seat.who):
        yield Written(entry=Entry(kind="reaction", place=post, line=emoji), at=at)


ACTIONS = {
    "chat_channels": channels,
    "chat_read": read,
    "chat_search": search,
    "chat_send": send,
    "chat_reply": reply,
    "chat_react": react,
    "chat_edit": edit,
    "chat_delete": delete,
    "chat_open": open_channel,
}

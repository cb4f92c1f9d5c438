"""The directory."""

from __future__ import annotations

from ninefold.agent.env.office.seat import SHOWN, Seat, listed, mentions, words
from ninefold.core.protocols import Tool

TOOLS = (
    Tool(
        name="people_search",
        description="People whose name, title, team, room or boss holds the words, the name first. `page:2` shows more.",
        parameters={"query": "string"},
    ),
)


def search(seat: Seat, query: str) -> str:
    """Name, title, team, room and boss of each."""
    line = "name || ' | ' || title || ' | team ' || team || ' | room ' || room || ' | boss ' || boss"
    found, page = words(query)
    rules = [*mentions(line, found)] or [("1", None)]
    where = " AND ".join(rule for rule, _ in rules)
    values = [value for _, value in rules if value is not None]
    rows = seat.rows(
        f"SELECT {line} FROM person WHERE {where} ORDER BY lower(name) != ?, name LIMIT ? OFFSET ?",
        *values,
        " ".join(found),
        SHOWN + 1,
        page * SHOWN,
    )
    return listed([row[0] for row in rows], page, "nobody")


def put(seat: Seat, name: str, title: str, team: str, room: str, boss: str) -> str:
    """Enter somebody, or change what is known of them; the personnel office's own operation, offered to nobody."""
    seat.write("INSERT OR REPLACE INTO person VALUES (?, ?, ?, ?, ?)", name, title, team, room, boss)
    return "saved"


ACTIONS = {"people_search": search, "people_set": put}

"""The tools of the office."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ninefold.agent.env.assistant.desk import Desk, Store
from ninefold.agent.env.assistant.question import USER
from ninefold.agent.env.calls import refusal
from ninefold.core.protocols import Observation, Tool
from ninefold.core.seeds import rng_of
from ninefold.core.types import Call, Task

BUSY = 0.35
"""Share of the directory look-ups that visibly fail."""

TOOLS: tuple[Tool, ...] = (
    Tool(name="lookup", description="The boss of a person. May be busy; then try again.", parameters={"key": "string"}),
    Tool(name="send", description="Send a text to the user by chat.", parameters={"text": "string"}),
    Tool(name="mail_search", description="Mail that contains the query.", parameters={"query": "string"}),
    Tool(name="mail_send", description="Send mail to a person.", parameters={"to": "string", "text": "string"}),
    Tool(name="chat_search", description="Chat messages that contain the query.", parameters={"query": "string"}),
    Tool(name="chat_send", description="Send a chat message to a person.", parameters={"to": "string", "text": "string"}),
    Tool(name="note_search", description="Notes that contain the query.", parameters={"query": "string"}),
    Tool(name="note_write", description="Write a note.", parameters={"title": "string", "text": "string"}),
    Tool(name="next_day", description="End the day.", parameters={}),
)

QUESTION_TOOLS = ("lookup", "send")
AGENDA_TOOLS = tuple(tool.name for tool in TOOLS if tool.name != "send")


class AssistantWorld:
    """An office in which one task is done."""

    def __init__(self, task: Task, desk: Desk) -> None:
        self._task = task
        self._desk = desk
        self._tools = tuple(tool for tool in TOOLS if tool.name in task.tools)

    def call(self, call: Call) -> Observation:
        """Execute one call; every outcome is a short text."""
        refused = refusal(call, self._tools)
        return Observation(text=refused if refused is not None else self._execute(call.tool, call.arguments))

    def _execute(self, tool: str, arguments: Mapping[str, str]) -> str:
        match tool.split("_"):
            case ["lookup"]:
                return self._lookup(arguments["key"])
            case ["send"]:
                self._desk.write("chat", USER, arguments["text"])
                return "sent"
            case [("mail" | "chat" | "note") as store, "search"]:
                return "\n".join(self._desk.search(store, arguments["query"])) or "nothing"
            case [("mail" | "chat") as store, "send"]:
                return self._send(store, arguments["to"], arguments["text"])
            case ["note", "write"]:
                self._desk.write("note", arguments["title"], arguments["text"])
                return "saved"
            case _:
                return self._next_day()

    def _lookup(self, name: str) -> str:
        # Seeded by the task and the number of the look-up: all samples of a group meet the same failures.
        if rng_of("busy", self._task.id, self._desk.count_lookup()).random() < BUSY:
            return "error: busy"
        return self._desk.boss(name.strip()) or "error: no such name"

    def _send(self, store: Store, to: str, text: str) -> str:
        if self._desk.boss(to.strip()) is None:
            return "error: no such name"
        self._desk.write(store, to, text)
        return "sent"

    def _next_day(self) -> str:
        if self._desk.day >= self._task.data["days"]:
            return "error: this is the last day"
        self._desk.next_day()
        return f"day {self._desk.day}"

    def final(self, response: str | None) -> Mapping[str, Any]:
        """The last response, the day, and everything the assistant wrote."""
        return {"response": response, "day": self._desk.day, "written": [asdict(entry) for entry in self._desk.written()]}

    def save(self) -> bytes:
        return self._desk.dump()

    def close(self) -> None:
        self._desk.close()

"""The tools of the office."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ninefold.agent.env.calls import refusal
from ninefold.agent.env.office import calendar, canvas, chat, mail, notes, people
from ninefold.agent.env.office.clock import told
from ninefold.agent.env.office.desk import Desk
from ninefold.agent.env.office.seat import time_of
from ninefold.agent.harness.executor.operations import Refused
from ninefold.core.protocols import Observation, Tool
from ninefold.core.types import Call, Task

CLOCK_TOOLS = (
    Tool(name="clock_now", description="The day and time. Time stands still while you work.", parameters={}),
    Tool(
        name="clock_wait",
        description=(
            "Let time pass: until a time (`day 2 10:30`), until something arrives or the next morning comes (`next`), or "
            "until something arrives but no longer than a time (`next or day 2 10:30`)."
        ),
        parameters={"until": "string"},
    ),
)

TOOLS: tuple[Tool, ...] = (
    *CLOCK_TOOLS,
    *people.TOOLS,
    *mail.TOOLS,
    *notes.TOOLS,
    *chat.TOOLS,
    *canvas.TOOLS,
    *calendar.TOOLS,
)
OVER = "the last day is over"


class OfficeWorld:
    """An office in which one task is done."""

    def __init__(self, task: Task, desk: Desk) -> None:
        self._desk = desk
        self._tools = tuple(tool for tool in TOOLS if tool.name in task.tools)

    def call(self, call: Call) -> Observation:
        """Execute one call; every outcome is a text."""
        if (refused := refusal(call, self._tools)) is not None:
            return Observation(text=refused)
        try:
            return Observation(text=self._execute(call.tool, call.arguments))
        except Refused as refused:
            return Observation(text=f"error: {refused}")

    def _execute(self, tool: str, arguments: Mapping[str, str]) -> str:
        match tool:
            case "clock_now":
                return self._time()
            case "clock_wait":
                return self._wait(arguments["until"])
            case _:
                return self._desk.act(tool, arguments)

    def _wait(self, until: str) -> str:
        if self._desk.now >= self._desk.end:
            raise Refused(OVER)
        first, _, bound = until.strip().partition(" or ")
        if first == "next":
            news = self._desk.wait_for_news(time_of(bound) if bound else None)
        else:
            at = time_of(until)
            if at < self._desk.now:
                raise Refused(f"it is {told(self._desk.now)} already")
            news = self._desk.wait(at)
        return "\n".join([self._time(), *news])

    def _time(self) -> str:
        return f"it is {told(self._desk.now)}" + (f", {OVER}" if self._desk.now >= self._desk.end else "")

    def final(self, response: str | None) -> Mapping[str, Any]:
        """The last response, the time, and everything that the assistant left in the applications."""
        written = [{**asdict(found.entry), "at": found.at} for found in self._desk.written()]
        return {"response": response, "now": self._desk.now, "written": written}

    def save(self) -> bytes:
        return self._desk.dump()

    def close(self) -> None:
        self._desk.close()

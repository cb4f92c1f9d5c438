"""Families without tools: one question, one answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ninefold.agent.env.calls import refusal
from ninefold.agent.env.script import Script, Steps
from ninefold.core.protocols import Move, Observation, SandboxRuntime, Tool
from ninefold.core.types import Call, Domain, Task


class Silence:
    """A world in which nothing can be done but answer."""

    def call(self, call: Call) -> Observation:
        return Observation(text=refusal(call, ()) or "")

    def final(self, response: str | None) -> Mapping[str, Any]:
        return {"response": response}

    def save(self) -> bytes:
        return b""

    def close(self) -> None:
        pass


class Quiz:
    """What the families without tools have in common."""

    domain: Domain = "general"
    tools: tuple[Tool, ...] = ()
    isolated = False

    def open(self, task: Task, *, seed: int, runtime: SandboxRuntime | None = None) -> Silence:
        return Silence()

    def restore(self, task: Task, saved: bytes, *, runtime: SandboxRuntime | None = None) -> Silence:
        return Silence()


def response_of(final: Mapping[str, Any]) -> str:
    """The last response without surrounding white space; empty where there was none."""
    response = final.get("response")
    return response.strip() if isinstance(response, str) else ""


def say(response: str | None, think: str = "") -> Script:
    """A policy that thinks once and answers."""

    def steps() -> Steps:
        yield Move(think=think, response=response)

    return Script(steps())

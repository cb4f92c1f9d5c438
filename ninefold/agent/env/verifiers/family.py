"""Imported tasks of verifiers: tools at its tool servers, scores by its rewards."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from ninefold.agent.env.declared import tools_of
from ninefold.agent.env.mcp import Switchboard
from ninefold.agent.env.quiz import response_of, say
from ninefold.core.errors import SandboxUnavailable, UserError
from ninefold.core.guest import Guest
from ninefold.core.protocols import Observation, SandboxRuntime, ScriptedPolicy, Style, Tool
from ninefold.core.types import Call, Domain, Result, Split, Task

PYTHON, PATH = "NINEFOLD_VERIFIERS_PYTHON", "NINEFOLD_VERIFIERS_PATH"
"""Environment variables: the interpreter that has verifiers, and folders of tasksets that are not installed in it, joined
by the system's separator of paths."""
HOST = Path(__file__).with_name("host.py")

_guest: Guest | None = None
_owner = 0
"""The process that started it: a fork has to start its own."""
_lock = Lock()


def python() -> Path:
    """The interpreter that the environment names, or that `make referees` makes."""
    return Path(os.environ.get(PYTHON, "runs/referees/verifiers-env/bin/python")).absolute()


def guest() -> Guest:
    """The one program of this process. Raises SandboxUnavailable."""
    global _guest, _owner
    with _lock:
        if _guest is None or _owner != os.getpid() or not _guest.alive:
            if not python().exists():
                raise SandboxUnavailable(
                    f"no interpreter with verifiers at {python()}: `make referees` makes it, or set {PYTHON}"
                )
            folders = [str(Path(place).absolute()) for place in os.environ.get(PATH, "").split(os.pathsep) if place]
            _guest, _owner = Guest(python(), str(HOST), modules=folders), os.getpid()
        return _guest


class VerifiersWorld:
    """The tools live at servers of the guest program's; what is kept is what was said, and the state that they share."""

    def __init__(self, task: Task, saved: Mapping[str, Any] | None = None) -> None:
        where = {"taskset": task.data["taskset"], "options": task.data["options"], "data": task.data["task"]}
        self._guest = guest()
        self._messages: list[dict[str, Any]] = saved["messages"] if saved else _opening(task)
        told = self._guest.ask("open", **where, state=saved["state"] if saved else "")
        self._session: str = told["session"]
        self._board = Switchboard(told["urls"])

    def call(self, call: Call) -> Observation:
        seen = self._board.call(call)
        number = f"call_{len(self._messages)}"
        asked = {"id": number, "type": "function", "name": call.tool, "arguments": json.dumps(dict(call.arguments))}
        self._messages.append({"role": "assistant", "content": None, "tool_calls": [asked]})
        self._messages.append({"role": "tool", "tool_call_id": number, "name": call.tool, "content": seen.text})
        return seen

    def final(self, response: str | None) -> Mapping[str, Any]:
        """The response, the conversation that ends with it, and the state of the tools."""
        said = [] if response is None else [{"role": "assistant", "content": response}]
        return {"response": response, "messages": [*self._messages, *said], "state": self._state()}

    def save(self) -> bytes:
        return json.dumps({"messages": self._messages, "state": self._state()}).encode()

    def close(self) -> None:
        self._board.close()
        if self._guest.alive:
            self._guest.ask("close", session=self._session)

    def _state(self) -> str:
        return self._guest.ask("state", session=self._session)


def _opening(task: Task) -> list[dict[str, Any]]:
    data = task.data["task"]
    system = [{"role": "system", "content": data["system_prompt"]}] if data.get("system_prompt") else []
    prompt = data["prompt"]
    return [*system, *([{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt)]


class Verifiers:
    """The score is the weighted mean of the task's rewards; full marks pass. Its own stop rules are not asked."""

    name = "verifiers"
    domain: Domain = "agents"
    levels = 1
    tools: tuple[Tool, ...] = ()
    isolated = False

    def lacks(self, level: int = 0) -> str | None:
        """What this machine has not, in a sentence; None where it can run."""
        return None if python().exists() else f"no interpreter with verifiers at {python()}: `make referees` makes it"

    def brings(self, task: Task) -> tuple[Tool, ...]:
        """The tools that its servers had when the task was imported."""
        return tools_of(task.data["tools"])

    def generate(self, split: Split, level: int, seed: int) -> Task:
        raise UserError("tasks of verifiers are imported from a taskset (`ninefold verifiers import`), not generated")

    def open(self, task: Task, *, seed: int, runtime: SandboxRuntime | None = None) -> VerifiersWorld:
        return VerifiersWorld(task)

    def restore(self, task: Task, saved: bytes, *, runtime: SandboxRuntime | None = None) -> VerifiersWorld:
        return VerifiersWorld(task, json.loads(saved))

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        """Scored by a program that did not serve the episode. A mean outside [0, 1], or no reward at all, is invalid."""
        if not response_of(final):
            return Result(status="fail", detail="nothing was answered")
        where = {"taskset": task.data["taskset"], "options": task.data["options"], "data": task.data["task"]}
        rewards = guest().ask("score", **where, messages=final["messages"], state=final["state"])
        told = ", ".join(f"{name} {score:g}" for name, (score, _) in rewards.items())
        weight = sum(weight for _, weight in rewards.values())
        score = sum(score * weight for score, weight in rewards.values()) / weight if weight > 0 else float("nan")
        if not 0.0 <= score <= 1.0:
            return Result(status="invalid", detail=f"its rewards come to no score in [0, 1]: {told or 'there are none'}")
        return Result(status="pass" if score == 1.0 else "fail", score=score, detail=told)

    def gold(self, task: Task) -> ScriptedPolicy:
        """Says what the data calls `answer`: a taskset has no reference solution."""
        return say(str(task.data["task"].get("answer", "")))

    def demonstrate(self, task: Task, style: Style) -> ScriptedPolicy:
        return self.gold(task)

    def hacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        return {"says nothing": say(""), "claims to be done": say("done"), "repeats the question": say(task.instruction)}

    def phrases(self) -> Sequence[str]:
        return ()

"""A domain of tau2-bench as a world."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ninefold.agent.env.tau2.checkout import check_domain, guest
from ninefold.core.errors import UserError
from ninefold.core.guest import Guest
from ninefold.core.protocols import Observation
from ninefold.core.types import Call, Task


class Tau2World:
    """Its databases live in the guest program; all that has to be kept of them is what was called."""

    def __init__(self, task: Task, called: Sequence[Mapping[str, Any]] = ()) -> None:
        check_domain(task.data["domain"])
        self._guest: Guest = guest()
        self._session: int = self._guest.ask("open", domain=task.data["domain"], task=task.data["task"])
        self._names = set(task.tools)
        self._called: list[Mapping[str, Any]] = []
        for call in called:
            self._called.append(call)
            self._guest.ask("call", session=self._session, **call)

    def call(self, call: Call) -> Observation:
        """What tau2's tool answers; its errors are text as well."""
        if call.error is not None or call.tool not in self._names:
            return Observation(text=f"error: {(call.error or 'no such tool')[:200]}")
        asked = {"tool": call.tool, "arguments": dict(call.arguments)}
        try:
            text = self._guest.ask("call", session=self._session, **asked)
        except UserError as error:
            return Observation(text=f"error: {error}")
        self._called.append(asked)
        return Observation(text=text or "")

    def final(self, response: str | None) -> Mapping[str, Any]:
        """The response, the hashes of the databases, and what of the task's criteria the state meets."""
        return {"response": response, **self._guest.ask("state", session=self._session)}

    def save(self) -> bytes:
        return json.dumps(self._called).encode()

    def close(self) -> None:
        if self._guest.alive:
            self._guest.ask("close", session=self._session)

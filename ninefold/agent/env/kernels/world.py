"""Where lines are written: a tool that compiles one and says whether it is right. Kernels have a workspace instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ninefold.agent.env.calls import refusal
from ninefold.core.protocols import Observation, Tool
from ninefold.core.types import Call, Result

RUN = Tool(name="run", description="Compile the expression and try it: right or wrong.", parameters={"code": "string"})


class Bench:
    """Every try has fresh sandboxes, so the world itself keeps nothing."""

    def __init__(self, judge: Callable[[str], Result]) -> None:
        """`judge` says what an expression is worth."""
        self._judge = judge

    def call(self, call: Call) -> Observation:
        refused = refusal(call, (RUN,))
        if refused is not None:
            return Observation(text=refused)
        return Observation(text="right" if self._judge(call.arguments["code"]).status == "pass" else "wrong")

    def final(self, response: str | None) -> Mapping[str, Any]:
        return {"response": response}

    def save(self) -> bytes:
        return b""

    def close(self) -> None:
        pass

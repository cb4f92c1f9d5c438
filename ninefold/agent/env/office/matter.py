"""Kinds of matters that an office deals with."""

from __future__ import annotations

from typing import Protocol

from ninefold.agent.env.office.clerk import Clerk, Message
from ninefold.agent.env.office.plan import Plan
from ninefold.agent.env.script import Steps


class Matter(Protocol):
    """One kind: how it is drawn, and how it is dealt with from what can be seen."""

    @property
    def convention(self) -> str:
        """How it is to be answered, as the page `How we work` says it; empty where the request says it all."""
        ...

    def prepare(self, plan: Plan) -> None:
        """What stands there on the first morning, before any matter of this kind is drawn."""
        ...

    def draw(self, plan: Plan, day: int) -> None:
        """Another matter of this kind, which begins on a day. Raises Full where there is no room for it."""
        ...

    def settle(self, plan: Plan) -> None:
        """What follows from all matters of this kind together, once they are drawn."""
        ...

    def handle(self, clerk: Clerk, message: Message) -> Steps | None:
        """Steps that deal with a message; None where it is about something else."""
        ...

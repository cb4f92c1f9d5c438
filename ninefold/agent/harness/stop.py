"""The stop rule: when the agent has had its say."""

from __future__ import annotations

from dataclasses import dataclass

from ninefold.core.protocols import ParsedMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRule:
    """An episode ends with a message that calls no tool, or at the turn limit."""

    turns: int = 64
    """Assistant messages; the task's own limit holds besides."""

    def finished(self, message: ParsedMessage, turns: int) -> bool:
        """Whether `message`, the `turns`-th, is the last one."""
        return not message.calls or turns >= self.turns

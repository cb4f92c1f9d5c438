"""The prompt module: a system prompt or none, and how the task's instruction is put to the policy."""

from __future__ import annotations

from dataclasses import dataclass

from ninefold.core.protocols import Message
from ninefold.core.types import Task

SLOT = "{instruction}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What opens a conversation."""

    system: str | None = None
    user: str = SLOT
    """Template of the user message; `{instruction}` stands for the task's."""

    def __post_init__(self) -> None:
        if self.user.count(SLOT) != 1:
            raise ValueError(f"a user template holds {SLOT} exactly once, got {self.user!r}")

    def messages(self, task: Task) -> list[Message]:
        """System message, where there is one, and user message."""
        system: list[Message] = [] if self.system is None else [{"role": "system", "content": self.system}]
        return [*system, {"role": "user", "content": self.user.replace(SLOT, task.instruction)}]

    def phrases(self) -> list[str]:
        """The fixed text."""
        return [text for text in (self.system or "", *self.user.split(SLOT)) if text]

"""The prompt module: a system prompt or none, and how the task's instruction is put to the policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ninefold.core.picture import Picture
from ninefold.core.protocols import Message
from ninefold.core.types import Task
from ninefold.media.scene import draw

SLOT = "{instruction}"


def pictures(task: Task) -> list[Picture]:
    """What the policy is shown before the instruction."""
    return [draw(scene) for scene in task.pictures]


def shown(pictures: Sequence[Picture], text: str) -> str | list[dict[str, Any]]:
    """Content of a message: pictures, then text."""
    parts = [{"type": "image", "width": p.width, "height": p.height, "hash": p.hash} for p in pictures]
    return [*parts, {"type": "text", "text": text}] if parts else text


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
        text = self.user.replace(SLOT, task.instruction)
        return [*system, {"role": "user", "content": shown(pictures(task), text)}]

    def phrases(self) -> list[str]:
        """The fixed text."""
        return [text for text in (self.system or "", *self.user.split(SLOT)) if text]

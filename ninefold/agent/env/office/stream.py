"""What happens by itself, as data: each event is an operation that a colleague carries out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ninefold.agent.env.office.seat import ME


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A colleague's operation, and when it comes: at a time, after another event, or once the assistant does something."""

    id: str
    """Also of what the operation makes: mail, page, post, card, meeting."""
    who: str
    tool: str
    arguments: Mapping[str, str]
    at: int | None = None
    """In minutes; None where it depends on what happens."""
    follows: str = ""
    """Id of the event that it follows."""
    on: Mapping[str, str] = field(default_factory=dict[str, str])
    """The assistant's call that sets it off, once: `tool`, and texts that its other arguments hold."""
    delay: int = 0
    """Minutes after what it follows or what sets it off."""

    @staticmethod
    def parse(data: Mapping[str, Any]) -> Event:
        """From the task's JSON."""
        return Event(**data)

    def json(self) -> dict[str, Any]:
        """Without causes that it has not."""
        return {name: value for name, value in asdict(self).items() if value or name not in ("follows", "on", "delay")}

    def set_off_by(self, tool: str, arguments: Mapping[str, str]) -> bool:
        """Whether that call of the assistant is what the event waits for."""
        return self.on.get("tool") == tool and all(
            text.casefold() in arguments.get(name, "").casefold() for name, text in self.on.items() if name != "tool"
        )

    @property
    def news(self) -> str:
        """What the assistant is told while it waits; empty where it has to find out."""
        told = self.arguments
        match self.tool:
            case "mail_send" if ME in told["to"].split(", "):
                return f"mail {self.id} from {self.who}"
            case "mail_reply":
                return f"mail in {told['thread']} from {self.who}"
            case "chat_send":
                return f"chat in {f'@{self.who}' if told['channel'] == f'@{ME}' else told['channel']}"
            case "calendar_create" if ME in told["people"].split(", "):
                return f"invitation {self.id} from {self.who}"
            case _:
                return ""

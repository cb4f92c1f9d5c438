"""What an agent keeps beside its files: a to-do list, notes, a schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ninefold.agent.harness.executor.operations import Refused
from ninefold.core.protocols import Observation

MEMORY_CHARS: Mapping[str, int] = {"memory": 2_200, "user": 1_375}
"""Characters that the notes of each kind may hold (Hermes)."""
CRON_JOBS = 50
CRON_BYTES = 8_192
"""Of a scheduled prompt (Kimi Code)."""
_STATUS = ("pending", "in_progress", "completed", "cancelled")


@dataclass(slots=True, kw_only=True)
class Notes:
    """State that outlives a context window, as JSON."""

    items: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The to-do list: text and status of each."""
    memory: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in MEMORY_CHARS})
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """Id → when, prompt, recurring. Whoever owns the clock plays them."""
    next_job: int = 1

    def todo(self, items: list[Any] | None = None, merge: bool = False) -> Observation:
        """Replace the list, or change and add single items; without `items` it is shown."""
        if items is not None:
            checked = [_item(item) for item in items]
            if merge:
                known = {item["text"]: item for item in self.items}
                self.items = list({**known, **{item["text"]: item for item in checked}}.values())
            else:
                self.items = checked
        shown = [f"[{item['status']}] {item['text']}" for item in self.items]
        return Observation(text="\n".join(shown) or "the list is empty", data={"lines": shown, "items": self.items})

    def keep(self, action: str, target: str = "memory", text: str = "", old: str = "") -> Observation:
        """Add, replace or remove a note; `read` shows them."""
        if target not in self.memory:
            raise Refused(f"target is one of {', '.join(self.memory)}, not {target[:40]}")
        notes = list(self.memory[target])
        if action == "add":
            notes.append(_stated(text))
        elif action in ("replace", "remove"):
            found = [n for n, note in enumerate(notes) if old and old in note]
            if len(found) != 1:
                raise Refused(f"the old text fits {len(found)} notes; it has to fit one")
            notes[found[0] : found[0] + 1] = [_stated(text)] if action == "replace" else []
        elif action != "read":
            raise Refused(f"action is add, replace, remove or read, not {action[:40]}")
        used, most = sum(len(note) for note in notes), MEMORY_CHARS[target]
        if used > most:
            raise Refused(f"{target} holds {most} characters, this would make {used}; remove something first")
        self.memory[target] = notes
        return Observation(text="\n§\n".join(notes) or "no notes", data={"lines": notes, "used": used, "most": most})

    def cron(self, action: str, when: str = "", prompt: str = "", recurring: bool = True, id: str = "") -> Observation:
        """Add, list or delete scheduled prompts; `when` is a cron line of five fields."""
        if action == "create":
            if len(when.split()) != 5:
                raise Refused("the schedule has five fields: minute, hour, day, month, weekday")
            if not prompt or len(prompt.encode()) > CRON_BYTES:
                raise Refused(f"a prompt has 1 to {CRON_BYTES} bytes")
            if len(self.jobs) >= CRON_JOBS:
                raise Refused(f"there are {CRON_JOBS} jobs already; delete one first")
            id, self.next_job = f"cron_{self.next_job}", self.next_job + 1
            self.jobs[id] = {"when": when, "prompt": prompt, "recurring": recurring}
            return Observation(text=f"created {id}", data={"id": id})
        if action == "delete":
            if self.jobs.pop(id, None) is None:
                raise Refused(f"there is no job {id[:40]}")
            return Observation(text=f"deleted {id}", data={"id": id})
        if action == "list":
            lines = [f"{id}: {job['when']} {job['prompt']}" for id, job in self.jobs.items()]
            return Observation(text="\n".join(lines) or "no jobs", data={"lines": lines})
        raise Refused(f"action is create, list or delete, not {action[:40]}")


def _stated(text: str) -> str:
    if not text.strip():
        raise Refused("the note is empty")
    return text


def _item(item: Any) -> dict[str, Any]:
    if not isinstance(item, dict) or not isinstance(item.get("text"), str) or item.get("status", "pending") not in _STATUS:
        raise Refused(f"an item has text and a status, one of {', '.join(_STATUS)}")
    return {"text": item["text"], "status": item.get("status", "pending")}

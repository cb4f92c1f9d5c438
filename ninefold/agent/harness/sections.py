"""The prompt of a white-box harness: sections in its order, some of them filled from the task's files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import PurePosixPath
from typing import Literal

from ninefold.agent.harness.executor.files import ROOT
from ninefold.agent.harness.prompt import pictures, shown
from ninefold.core.protocols import Message
from ninefold.core.seeds import seed_of
from ninefold.core.types import Task

_SLOT = re.compile(r"\{(\w+)\}")
_FIRST_DAY, _DAYS = date(2026, 1, 1), 365


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A piece of the prompt."""

    name: str
    text: str
    """May hold slots: {cwd} {os} {shell} {date} {tools} {tree} {project_doc} {skills} {memory}. Left out where one is empty."""
    tool: str = ""
    """Left out too where no tool of this name is shown."""
    role: Literal["system", "user"] = "system"
    """Whose message it is in; user sections come before the instruction, each in a message of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sections:
    """What opens a conversation."""

    sections: tuple[Section, ...]
    user: str = "{instruction}"
    """Of the instruction's message."""
    docs: tuple[str, ...] = ("AGENTS.md",)
    """Files of the task that are merged into {project_doc}, in this order."""
    doc_chars: int = 0
    """Characters of each that are taken; 0 means all."""
    memory: tuple[str, ...] = ()
    """Files that make up {memory}: as they were at the start, whatever becomes of them."""

    def messages(self, task: Task, tools: Sequence[str]) -> list[Message]:
        """One system message, the user sections, and the instruction; `tools` are the names on the wire."""
        values = self._values(task, tools)
        meant = [section for section in self.sections if not section.tool or section.tool in tools]
        filled = [(section.role, text) for section in meant if (text := _filled(section.text, values))]
        system = "\n\n".join(text for role, text in filled if role == "system")
        opening: list[Message] = [{"role": "system", "content": system}] if system else []
        opening += [{"role": "user", "content": text} for role, text in filled if role == "user"]
        instruction = _filled(self.user, {**values, "instruction": task.instruction}) or task.instruction
        return [*opening, {"role": "user", "content": shown(pictures(task), instruction)}]

    def phrases(self) -> list[str]:
        """The fixed text."""
        texts = [self.user, *(section.text for section in self.sections)]
        return [piece for text in texts for piece in _SLOT.split(text)[::2] if piece]

    def _values(self, task: Task, tools: Sequence[str]) -> dict[str, str]:
        taken = self.doc_chars or None
        return {
            "cwd": ROOT,
            "os": "Linux",
            "shell": "bash",
            # [ours] a date of the task's own, so that equal slots see equal prompts.
            "date": str(_FIRST_DAY + timedelta(days=seed_of(task.id, "date") % _DAYS)),
            "tools": "\n".join(f"- {name}" for name in tools),
            "tree": _tree(task.files),
            "project_doc": "\n\n".join(task.files[name][:taken] for name in self.docs if task.files.get(name)),
            "skills": "\n".join(_skills(task.files)),
            "memory": "\n".join(task.files[name] for name in self.memory if task.files.get(name)),
        }


def _filled(text: str, values: Mapping[str, str]) -> str:
    """The text with its slots filled in one pass; empty where one of them is."""
    names = [name for name in _SLOT.findall(text) if name in values]
    if not all(values[name] for name in names):
        return ""
    return _SLOT.sub(lambda found: values.get(found[1], found[0]), text)


def _tree(files: Mapping[str, str]) -> str:
    """Two levels of the working directory."""
    shown: dict[str, None] = {}
    for name in sorted(files):
        parts = PurePosixPath(name).parts
        for depth in range(1, min(len(parts), 2) + 1):
            shown["  " * (depth - 1) + parts[depth - 1] + ("/" if depth < len(parts) else "")] = None
    return "\n".join(shown)


def _skills(files: Mapping[str, str]) -> list[str]:
    """Name, description and path of every SKILL.md, from its front matter."""
    listed = []
    for path in sorted(files):
        if PurePosixPath(path).name == "SKILL.md":
            facts = dict(re.findall(r"^(name|description):\s*(.+)$", files[path], re.MULTILINE))
            name = facts.get("name", PurePosixPath(path).parent.name)
            listed.append(f"- {name}: {facts.get('description', '')} ({ROOT}/{path})")
    return listed

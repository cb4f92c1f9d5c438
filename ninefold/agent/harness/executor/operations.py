"""The canonical operations: their names and parameters, whatever a harness calls them.

Paths are those of the working directory, relative or below /work; line numbers start at 1.
"""

from __future__ import annotations

from collections.abc import Mapping

from ninefold.agent.harness.arguments import fault
from ninefold.core.protocols import Tool
from ninefold.core.types import Call


class Refused(Exception):
    """An operation cannot be done as asked; the policy is told why."""


def operation(name: str, description: str, parameters: Mapping[str, str], **optional: str) -> Tool:
    """A canonical tool with optional parameters."""
    return Tool(name=name, description=description, parameters=parameters, optional=optional)


_TEXT, _NUMBER, _FLAG, _LIST, _OBJECT = "string", "number", "boolean", "array", "object"

OPERATIONS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        operation("read", "Lines of a text file.", {"path": _TEXT}, offset=_NUMBER, limit=_NUMBER),
        operation(
            "write",
            "Make or replace a file.",
            {"path": _TEXT, "text": _TEXT},
            append=_FLAG,
            read_first=_FLAG,
            create_only=_FLAG,
        ),
        operation(
            "edit", "Replace text in a file.", {"path": _TEXT, "old": _TEXT, "new": _TEXT}, every=_FLAG, read_first=_FLAG
        ),
        operation("patch", "Apply a patch to several files.", {"patch": _TEXT}),
        operation("list", "What a folder holds.", {}, path=_TEXT, limit=_NUMBER),
        operation("glob", "Files whose path fits a pattern.", {"pattern": _TEXT}, path=_TEXT, limit=_NUMBER, offset=_NUMBER),
        operation(
            "grep",
            "Lines that match a regular expression.",
            {"pattern": _TEXT},
            path=_TEXT,
            glob=_TEXT,
            kind=_TEXT,
            mode=_TEXT,
            ignore_case=_FLAG,
            literal=_FLAG,
            numbers=_FLAG,
            only=_FLAG,
            before=_NUMBER,
            after=_NUMBER,
            context=_NUMBER,
            multiline=_FLAG,
            limit=_NUMBER,
            offset=_NUMBER,
        ),
        operation("shell", "Run a shell command.", {"command": _TEXT}, folder=_TEXT, seconds=_NUMBER, background=_FLAG),
        operation("search", "Search documents.", {"query": _TEXT}, count=_NUMBER),
        operation("fetch", "Text of a document.", {"url": _TEXT}, offset=_NUMBER, limit=_NUMBER),
        operation("media", "Look at a picture.", {"path": _TEXT}, region=_OBJECT),
        operation("todo", "Keep a list of what is to be done.", {}, items=_LIST, merge=_FLAG),
        operation("memory", "Keep notes.", {"action": _TEXT}, target=_TEXT, text=_TEXT, old=_TEXT),
        operation(
            "cron", "Keep a schedule of prompts.", {"action": _TEXT}, when=_TEXT, prompt=_TEXT, recurring=_FLAG, id=_TEXT
        ),
    )
}


def check(call: Call) -> None:
    """Raise Refused unless the call names an operation and its arguments fit."""
    if call.error is not None:
        raise Refused(call.error)
    tool = OPERATIONS.get(call.tool)
    if tool is None:
        raise Refused(f"no such tool: {call.tool[:80]}")
    if (wrong := fault(call.arguments, tool.parameters, tool.optional)) is not None:
        raise Refused(wrong)
    for name, value in call.arguments.items():
        if isinstance(value, str) and not _is_text(value):
            raise Refused(f"{name} holds characters that no file or command can hold")


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value

"""What tools are called on the wire: conventions that give canonical tools and parameters other names, and back."""

from __future__ import annotations

from typing import Literal

from ninefold.core.protocols import Tool

Convention = Literal["plain", "verbal", "service"]
CONVENTIONS: tuple[Convention, ...] = ("plain", "verbal", "service")

WireName = tuple[str, tuple[str, ...]]
"""A tool's name and its parameters' names, in the canonical order of the parameters."""

NAMES: dict[str, tuple[WireName, WireName, WireName]] = {
    "lookup": (("lookup", ("key",)), ("find_boss", ("name",)), ("org_query", ("person",))),
    "send": (("send", ("text",)), ("post_note", ("body",)), ("reply", ("message",))),
    "run": (("run", ("code",)), ("execute", ("expr",)), ("check", ("source",))),
    "search": (("search", ("query",)), ("find_text", ("words",)), ("index_query", ("terms",))),
    "open": (("open", ("id",)), ("read_page", ("page",)), ("fetch", ("document",))),
    "read": (("read", ("path",)), ("show_file", ("file",)), ("cat", ("target",))),
    "write": (("write", ("path", "text")), ("save_file", ("file", "body")), ("put", ("target", "content"))),
    "run_tests": (("run_tests", ()), ("test_it", ()), ("pytest", ())),
}
"""Canonical tool → its name under each convention."""


def wire_name(tool: Tool, convention: Convention) -> WireName:
    """The tool under a convention; one that `NAMES` does not know is named by rule."""
    parameters = tuple(tool.parameters)
    known = NAMES.get(tool.name)
    if known is not None:
        name, arguments = known[CONVENTIONS.index(convention)]
        if len(arguments) == len(parameters):
            return name, arguments
    if convention == "verbal":
        return "do_" + tool.name, parameters
    if convention == "service":
        return "".join(part.capitalize() for part in tool.name.split("_")), tuple(f"in_{name}" for name in parameters)
    return tool.name, parameters

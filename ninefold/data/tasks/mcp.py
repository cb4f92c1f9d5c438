"""Questions that the tools of an MCP server answer."""

from __future__ import annotations

import hashlib
import json

from ninefold.agent.env.declared import record_of
from ninefold.agent.env.mcp import McpServer, Place
from ninefold.core.seeds import split_of
from ninefold.core.types import Limits, Task


def import_server(place: Place, question: str, answer: str) -> Task:
    """A task with all tools that the server has now. Raises SandboxError where it cannot be spoken to."""
    server = McpServer(place)
    tools = [record_of(tool) for tool in server.tools()]
    server.close()
    where = place if isinstance(place, str) else list(place)
    content = hashlib.sha256(json.dumps([where, question]).encode()).hexdigest()
    split = split_of(content)
    return Task(
        id=f"mcp/{content[:12]}",
        domain="agents",
        family="mcp",
        split="train" if split == "corpus" else split,
        level=0,
        seed=int(content[:8], 16),
        shape="mcp",
        instruction=question,
        tools=tuple(tool["name"] for tool in tools),
        data={"server": where, "tools": tools, "answer": answer},
        limits=Limits(turns=30, new_tokens=16_384, context=65_536),
        provenance=f"mcp {where if isinstance(where, str) else where[0]}",
    )

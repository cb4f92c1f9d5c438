"""A world's tools over the Model Context Protocol (streamable HTTP, without sessions: a restart is not noticed)."""

from __future__ import annotations

from typing import Any

from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.concurrency import run_in_threadpool

from ninefold import __version__
from ninefold.agent.harness.tools import ToolInterface
from ninefold.core.protocols import Tool
from ninefold.serve.stored import StoredWorld


def sessions(world: StoredWorld) -> StreamableHTTPSessionManager:
    """What answers MCP clients; it has to be run while the server does."""
    tools = [_declared(tool) for tool in world.tools]

    async def list_tools(_: Any, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        reply = await run_in_threadpool(world.call, params.name, params.arguments or {})
        pictures = [types.ImageContent(type="image", data=image, mime_type="image/png") for image in reply.images]
        content = [types.TextContent(type="text", text=reply.text), *pictures]
        return types.CallToolResult(content=content, is_error=reply.text.startswith("error:"))

    server = Server(
        "ninefold",
        version=__version__,
        instructions=world.task.instruction,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    return StreamableHTTPSessionManager(server, json_response=True, stateless=True)


def _declared(tool: Tool) -> types.Tool:
    function = ToolInterface(schema="described").schemas([tool])[0]["function"]
    return types.Tool(name=tool.name, description=tool.description, input_schema=function["parameters"])

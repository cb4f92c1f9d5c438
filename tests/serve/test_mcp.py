"""One implementation of MCP, behind three doors: the protocol's public client finds the same manners at each."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from ninefold.agent.env import family
from ninefold.core.errors import SandboxError
from ninefold.core.protocols import Tool
from ninefold.core.types import Task
from ninefold.serve.episodes import Episodes
from ninefold.serve.hosts import EpisodeHost
from ninefold.serve.mcp import VERSIONS, Outcome, add_mcp, answer, over_pipes
from ninefold.serve.openenv import openenv_app
from ninefold.serve.stored import Reply, StoredWorld
from ninefold.serve.world import create_world_app

KIND = family("assistant")
TASK = KIND.generate("train", 1, 2)
PICTURE = base64.b64encode(b"\x89PNG").decode()


@asynccontextmanager
async def over_http(app: FastAPI) -> AsyncIterator[Any]:
    """The public client of an app in this process."""
    import httpx2
    import mcp
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as http,
        mcp.Client(streamable_http_client("http://localhost/mcp", http_client=http)) as client,
    ):
        yield client


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[Any]:
    stored = StoredWorld.begin(folder, KIND, TASK)
    async with over_http(create_world_app(stored)) as client:
        yield client
    assert json.loads((folder / "calls.jsonl").read_text().splitlines()[-1]) == {"response": "done"}
    stored.close()


@asynccontextmanager
async def episodes(_: Path) -> AsyncIterator[Any]:
    served = Episodes(family=KIND, level=1, seed=2)
    served.start()
    async with over_http(openenv_app(served)) as client:
        yield client
    assert not served.episodes, "a client that goes ends its episode"
    served.close()


@asynccontextmanager
async def pipes(_: Path) -> AsyncIterator[Any]:
    import mcp
    from mcp.client.stdio import StdioServerParameters

    program = "from ninefold.app.cli import main; main()"
    arguments = ["-c", program, "task", "serve", KIND.name, "--as", "mcp", "--level", "1", "--seed", "2"]
    async with mcp.Client(StdioServerParameters(command=sys.executable, args=arguments)) as client:
        yield client


@pytest.mark.parametrize(("door", "verdict"), [(world, False), (episodes, True), (pipes, True)])
def test_the_public_client_meets_the_same_manners(tmp_path: Path, door: Any, verdict: bool) -> None:
    mcp = pytest.importorskip("mcp")

    async def refused(act: Any) -> int:
        with pytest.raises(mcp.MCPError) as told:
            await act
        return told.value.error.code

    async def visit() -> None:
        async with door(tmp_path) as client:
            assert (client.instructions, client.server_info.name) == (TASK.instruction, "ninefold assistant")
            assert client.protocol_version in VERSIONS
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert tools.keys() == {*TASK.tools, "submit_answer"}
            assert tools["lookup"].input_schema["required"] == ["key"]
            assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["task"]
            assert (await client.get_prompt("task")).messages[0].content.text == TASK.instruction

            found = await client.call_tool("lookup", {"key": "nobody"})
            assert (found.is_error, found.content[0].text) == (True, "error: no such name")
            misused = await client.call_tool("lookup", {"key": 7})
            told = "error: bad arguments: key is 7, not of type string"
            assert (misused.is_error, misused.content[0].text, misused.meta) == (True, told, None)
            assert await refused(client.call_tool("rm", {})) == -32602
            assert await refused(client.get_prompt("poem")) == -32602
            assert await refused(client.list_resources()) == -32601

            taken = await client.call_tool("submit_answer", {"text": "done"})
            assert (taken.is_error, taken.content[0].text) == (False, "handed in")
            told = taken.meta or {}
            assert (told.get("done"), told.get("status")) == ((True, "fail") if verdict else (None, None))

    asyncio.run(visit())


class Gallery:
    """Host and offer at once: shows a picture, which ends the task; its other tool is broken."""

    task: Task = TASK
    tools: Sequence[Tool] = tuple(Tool(name=name, description="", parameters={}) for name in ("show", "fall"))
    handing_in = "Hand in."

    def begin(self) -> str:
        return "visit"

    def find(self, session: str) -> Gallery | None:
        return self if session == "visit" else None

    def leave(self, session: str) -> None:
        pass

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        if tool == "fall":
            raise SandboxError("the gallery fell down")
        return Outcome(reply=Reply(text="a picture", images=(PICTURE,), done=True), meta={"done": True})

    def answer(self, response: str) -> Outcome:
        return Outcome(reply=Reply(text=response))


def request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def test_messages_are_those_of_the_protocol() -> None:
    def ask(message: Any, session: str = "visit") -> Any:
        told, _ = answer(Gallery(), message, session)
        return told and told.get("result", told.get("error"))

    for asked, given in ((VERSIONS[0], VERSIONS[0]), ("2099-01-01", VERSIONS[-1]), (None, VERSIONS[-1])):
        assert ask(request("initialize", protocolVersion=asked), "")["protocolVersion"] == given
    image = {"type": "image", "mimeType": "image/png", "data": PICTURE}
    assert ask(request("tools/call", name="show")) == {
        "content": [{"type": "text", "text": "a picture"}, image],
        "isError": False,
        "_meta": {"done": True},
    }
    assert ask(request("tools/call", name="fall")) == {"code": -32603, "message": "the gallery fell down"}
    assert ask(request("tools/call", name="show", arguments=[1]))["code"] == -32602
    assert ask(request("tools/list"), "another")["code"] == -32602
    assert ask({"jsonrpc": "2.0", "method": "notifications/initialized"}) is None
    assert ask({"jsonrpc": "2.0", "id": 1, "result": {}}) is None
    assert [ask(junk)["code"] for junk in ([], 7, None, {"id": 1})] == [-32600] * 4


def test_http_tells_by_its_status_too() -> None:
    app = FastAPI()
    add_mcp(app, Gallery())
    with TestClient(app) as http:

        def post(message: Any, **headers: str) -> Any:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            return http.post("/mcp", content=message if isinstance(message, str) else json.dumps(message), headers=sent)

        assert post(request("initialize")).headers["mcp-session-id"] == "visit"
        assert post(request("tools/list"), mcp_session_id="visit", origin="http://localhost:3000").status_code == 200
        assert post({"method": "notifications/initialized"}, mcp_session_id="visit").status_code == 202
        gone = post(request("tools/list"), mcp_session_id="another")
        assert (gone.status_code, gone.json()["error"]["code"]) == (404, -32602)
        assert [(post(junk).status_code, post(junk).json()["error"]["code"]) for junk in ("{", "[]")] == [
            (400, -32700),
            (400, -32600),
        ]
        assert [post(request("ping"), origin=origin).status_code for origin in ("http://evil.example", "null")] == [403, 403]
        assert http.get("/mcp").status_code == 405
        assert http.delete("/mcp").status_code == 204


def test_pipes_answer_junk() -> None:
    served = Episodes(family=family("arithmetic"))
    served.start()
    out = io.StringIO()
    asked = ["{", "[]", "7", json.dumps({"id": 1, "method": "tools/list"}), json.dumps({"id": 2, "method": "ping"})]
    over_pipes(EpisodeHost(served), io.StringIO("\n".join(asked) + "\n"), out)
    served.close()
    told = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [one.get("error", {}).get("code") for one in told] == [-32700, -32600, -32600, -32602, None]

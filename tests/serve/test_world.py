"""A world over HTTP and MCP through real clients, killed and restarted: all of them see the one that is."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from ninefold.agent.env import family
from ninefold.agent.env.office.policies import demonstrate
from ninefold.core.errors import SandboxError, UserError
from ninefold.core.protocols import Observation, Style
from ninefold.core.types import Call, Task
from ninefold.serve.stored import SAVE_EVERY, StoredWorld
from ninefold.serve.world import create_world_app

OFFICE = family("office")
TOKEN, OWNER = "agents", "owner"


@pytest.fixture
def task() -> Task:
    return OFFICE.generate("dev", 2, 0)


def port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextmanager
def served(folder: Path, task: Task, at: int) -> Iterator[subprocess.Popen[bytes]]:
    """The command, up and running."""
    options = {"level": task.level, "seed": task.seed, "split": task.split, "in": folder, "port": at}
    command = [sys.executable, "-c", "from ninefold.app.cli import main; main()", "world", "serve", task.family]
    command += [part for name, value in options.items() for part in (f"--{name}", str(value))]
    tokens = {"NINEFOLD_WORLD_TOKEN": TOKEN, "NINEFOLD_OWNER_TOKEN": OWNER}
    process = subprocess.Popen(command, env={**os.environ, **tokens}, stderr=subprocess.PIPE)
    try:
        while process.poll() is None:
            try:
                httpx.get(f"http://127.0.0.1:{at}/health")
                break
            except httpx.ConnectError:
                time.sleep(0.05)
        assert process.poll() is None, process.stderr and process.stderr.read()
        yield process
    finally:
        process.kill()
        process.wait()


def client(at: int, token: str = TOKEN) -> httpx.Client:
    return httpx.Client(base_url=f"http://127.0.0.1:{at}", headers={"Authorization": f"Bearer {token}"}, timeout=60)


def over_mcp(at: int, tool: str, arguments: dict[str, Any]) -> str:
    """One call of a client that comes and goes."""
    httpx2, mcp = pytest.importorskip("httpx2"), pytest.importorskip("mcp")
    from mcp.client.streamable_http import streamable_http_client

    async def ask() -> str:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            transport = streamable_http_client(f"http://127.0.0.1:{at}/mcp", http_client=http)
            async with mcp.Client(transport) as session:
                names = {declared.name for declared in (await session.list_tools()).tools}
                assert tool in names
                return (await session.call_tool(tool, arguments)).content[0].text

    return asyncio.run(ask())


def test_http_mcp_and_the_familys_own_tools_see_one_world_through_a_kill(tmp_path: Path, task: Task) -> None:
    pytest.importorskip("mcp")
    at, folder = port(), tmp_path / "world"
    policy = demonstrate(task, Style(effort="max", seed=0))
    seen: list[Observation] = []
    done, over = 0, False
    while not over:
        with served(folder, task, at) as process, client(at) as http:
            assert http.get("/health").json() == {"status": "ok", "task": task.id, "calls": done}
            while (move := policy.move(seen)).calls:
                (call,) = move.calls
                if done % 40 == 7:
                    text = over_mcp(at, call.tool, dict(call.arguments))
                else:
                    text = http.post(f"/tools/{call.tool}", json=dict(call.arguments)).json()["text"]
                seen, done = [Observation(text=text)], done + 1
                if done == 75:
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                    break
            else:
                over = True
                assert http.post("/answer", json={"response": "done"}).json() == {"taken": True}
                with client(at, OWNER) as owner:
                    assert (owner.get("/verdict").json()["status"], done > 75) == ("pass", True)
    stored = StoredWorld.open(folder, OFFICE)
    try:
        assert stored.verdict().score == 1.0
        assert stored.call("clock_now", {}).text.endswith("the last day is over")
    finally:
        stored.close()


def test_routes_ask_for_their_tokens(tmp_path: Path, task: Task) -> None:
    stored = StoredWorld.begin(tmp_path, OFFICE, task)
    with TestClient(create_world_app(stored, token=TOKEN, owner_token=OWNER)) as http:
        for token, paths, status in (
            ("", ["/task", "/verdict", "/mcp"], 401),
            (TOKEN, ["/verdict", "/snapshot", "/verdict/"], 401),
            (TOKEN, ["/task", "/health"], 200),
            (OWNER, ["/task", "/verdict", "/snapshot"], 200),
        ):
            headers = {"Authorization": f"Bearer {token}"}
            assert [http.get(path, headers=headers).status_code for path in paths] == [status] * len(paths)
        http.headers["Authorization"] = f"Bearer {TOKEN}"
        told = http.get("/task").json()
        assert told["instruction"] == task.instruction
        assert {tool["function"]["name"] for tool in told["tools"]} == set(task.tools)
        assert "criteria" not in json.dumps(told)
        assert http.post("/tools/rm", json={}).json()["text"] == "error: no such tool"
        assert http.post("/tools/clock_now", content="no JSON").status_code == 422
        http.headers["Authorization"] = f"Bearer {OWNER}"
        snapshot = http.get("/snapshot").content
        http.post("/tools/clock_wait", json={"until": "day 2 12:00"})
        assert http.put("/snapshot", content=snapshot).json() == {"calls": 1}
        assert http.post("/tools/clock_now", json={}).json()["text"] == "it is day 1 09:00"
        assert http.put("/snapshot", content=b"junk").status_code == 400
    with TestClient(create_world_app(stored)) as http:
        assert http.get("/task").status_code == 200
        assert http.get("/verdict", headers={"Authorization": "Bearer "}).status_code == 401
    stored.close()


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ({"content": '{"until": "SECRET"}'}, "the request lacks the header Content-Type: application/json"),
        ({"data": {"until": "SECRET"}}, "is application/x-www-form-urlencoded, not application/json"),
        ({}, "the request has no body"),
        ({"content": '{"until: SECRET', "headers": {"Content-Type": "application/json"}}, "the body is no JSON"),
        ({"json": ["SECRET"]}, "the body is no JSON object"),
    ],
)
def test_a_request_that_cannot_be_read_is_told_a_right_one(tmp_path: Path, task: Task, sent: dict[str, Any], told: str) -> None:
    stored = StoredWorld.begin(tmp_path, OFFICE, task)
    with TestClient(create_world_app(stored)) as http:
        refused = http.post("/tools/clock_wait", **sent)
        answer = http.post("/answer", json={"text": "SECRET"}).json()["detail"]
    stored.close()
    detail = refused.json()["detail"]
    assert (refused.status_code, "SECRET" in detail, "SECRET" in answer) == (422, False, False)
    assert told in detail
    right = "curl -X POST http://testserver/tools/clock_wait -H 'Content-Type: application/json' -d '{\"until\": \"VALUE\"}'"
    assert detail.endswith(right)
    assert "response is missing" in answer


def test_a_call_with_a_key_is_made_once(tmp_path: Path, task: Task) -> None:
    for _ in range(2):
        stored = StoredWorld.begin(tmp_path, OFFICE, task)
        person = next(event["arguments"]["name"] for event in task.data["events"] if event["tool"] == "people_set")
        replies = {stored.call("chat_send", {"channel": f"@{person}", "text": "Are you there?"}, "k1").text for _ in range(3)}
        assert replies == {"posted as p-1"}
        assert stored.calls == 1
        with pytest.raises(UserError, match="'k1' was that of another call, of chat_send"):
            stored.call("clock_now", {}, "k1")
        stored.close()


def test_a_damaged_log_is_told_by_its_line(tmp_path: Path, task: Task) -> None:
    stored = StoredWorld.begin(tmp_path, OFFICE, task)
    stored.call("clock_now", {})
    stored.close()
    with (tmp_path / "calls.jsonl").open("a") as log:
        log.write("garbage\n")
    with pytest.raises(UserError, match=r"calls.jsonl, line 2 is damaged"):
        StoredWorld.open(tmp_path, OFFICE)


def test_calls_since_the_last_save_are_made_again(tmp_path: Path, task: Task) -> None:
    stored = StoredWorld.begin(tmp_path, OFFICE, task)
    for number in range(SAVE_EVERY + 5):
        stored.call("note_create", {"parent": "", "title": "mine", "text": str(number)})
    stored._held.close()  # what a kill does: the lock goes, nothing is saved
    with (tmp_path / "calls.jsonl").open("a") as log:
        log.write('{"tool": "note_cre')
    again = StoredWorld.open(tmp_path, OFFICE)
    assert again.calls == SAVE_EVERY + 5
    assert again.call("note_read", {"page": f"n-{SAVE_EVERY + 5}"}).text.endswith(str(SAVE_EVERY + 4))
    assert again.call("note_create", {"parent": "", "title": "mine", "text": "x"}).text == f"page n-{SAVE_EVERY + 6}"
    again.close()
    with pytest.raises(UserError, match="holds no world"):
        StoredWorld.open(tmp_path / "nowhere", OFFICE)


def test_a_log_that_does_not_fit_the_world_is_refused(tmp_path: Path, task: Task) -> None:
    stored = StoredWorld.begin(tmp_path, OFFICE, task)
    stored.call("clock_now", {})
    stored._held.close()
    log = tmp_path / "calls.jsonl"
    log.write_text(log.read_text().replace("09:00", "10:00"))
    with pytest.raises(SandboxError, match="returns something else"):
        StoredWorld.open(tmp_path, OFFICE)


def test_one_process_has_a_world_open(tmp_path: Path, task: Task) -> None:
    stored = StoredWorld.begin(tmp_path, OFFICE, task)
    holder = f"^process {os.getpid()} has {tmp_path} open; end it"
    with pytest.raises(UserError, match=f"{holder} first$"):
        StoredWorld.open(tmp_path, OFFICE)
    with pytest.raises(UserError, match=f"{holder}, or give another folder with --in$"):
        StoredWorld.begin(tmp_path, OFFICE, task)
    stored.close()
    with pytest.raises(UserError, match="not office/dev/2/1"):
        StoredWorld.begin(tmp_path, OFFICE, OFFICE.generate("dev", 2, 1))


def test_a_snapshot_is_gone_back_to(tmp_path: Path, task: Task) -> None:
    stored = StoredWorld.begin(tmp_path, OFFICE, task)
    stored.call("clock_wait", {"until": "day 1 12:00"})
    snapshot = stored.snapshot()
    stored.call("clock_wait", {"until": "day 2 12:00"})
    stored.call("note_create", {"parent": "", "title": "later", "text": "x"})
    stored.restore(snapshot)
    assert stored.calls == 1
    assert stored.call("clock_now", {}).text == "it is day 1 12:00"
    stored.close()
    again = StoredWorld.open(tmp_path, OFFICE)
    assert again.call("note_search", {"query": "later"}).text == "nothing"
    with pytest.raises(UserError, match="no snapshot"):
        again.restore(b"junk")
    again.close()


def test_any_family_can_be_stood_up_for_several_clients(tmp_path: Path) -> None:
    small = family("assistant")
    task = small.generate("train", 2, 0)
    stored = StoredWorld.begin(tmp_path, small, task)
    world = small.open(task, seed=task.seed)
    call = Call(tool="mail_search", arguments={"query": "day 1"})
    with ThreadPoolExecutor(3) as clients:
        texts = {reply.text for reply in clients.map(lambda _: stored.call(call.tool, call.arguments), range(9))}
    assert texts == {world.call(call).text}
    assert stored.calls == 9
    stored.close()
    world.close()

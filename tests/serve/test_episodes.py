"""Episodes served as OpenEnv and MCP: gold gets full marks through either door, whoever does nothing gets nothing."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

import ninefold.agent.env.example as example
from ninefold.agent.env import family
from ninefold.agent.env.mcp import McpServer
from ninefold.agent.env.play import play
from ninefold.agent.env.script import Recorder, answers
from ninefold.core.errors import SandboxError
from ninefold.core.protocols import Move, Observation, ScriptedPolicy
from ninefold.core.types import Call
from ninefold.data.tasks.mcp import import_server
from ninefold.serve.episodes import Episodes
from ninefold.serve.hosts import EpisodeHost
from ninefold.serve.mcp import answer
from ninefold.serve.openenv import openenv_app


def moves(policy: ScriptedPolicy, step: Any) -> Any:
    """Play the policy by `step`, an action at a time; what the last one gave."""
    seen: list[Observation] = []
    for _ in range(30):
        move = policy.move(seen)
        if not move.calls:
            return step({"type": "answer", "text": move.response or ""})
        told = [step({"type": "call_tool", "tool_name": call.tool, "arguments": dict(call.arguments)}) for call in move.calls]
        seen = [Observation(text=one["observation"]["result"]) for one in told]
    raise AssertionError("the policy does not answer")


@pytest.fixture
def client() -> Iterator[TestClient]:
    with TestClient(openenv_app(Episodes(family=family("assistant"), level=1))) as client:
        yield client


@pytest.mark.parametrize("seed", range(3))
def test_gold_is_rewarded_over_http(client: TestClient, seed: int) -> None:
    kind = family("assistant")
    task = kind.generate("heldout", 1, seed)
    first = client.post("/reset", json={"seed": seed, "split": "heldout"}).json()
    assert first["observation"]["instruction"] == task.instruction
    assert {tool["name"] for tool in first["observation"]["tools"]} == set(task.tools)
    last = moves(kind.gold(task), lambda action: client.post("/step", json={"action": action}).json())
    assert (last["reward"], last["done"]) == (1.0, True)
    assert client.get("/state").json()["done"] is True
    again = client.post("/step", json={"action": {"type": "answer", "text": "x"}}).json()
    assert again["reward"] == 1.0, "a verdict stands"


@pytest.mark.parametrize("path", ["/reset", "/step", "/assistant/tasks", "/assistant/task"])
def test_a_body_without_its_header_is_told_a_request_that_works(client: TestClient, path: str) -> None:
    assert client.post("/reset", json={}).status_code == 200
    detail = client.post(path, content='{"split": "SECRET"}').json()["detail"]
    assert "lacks the header Content-Type: application/json" in detail
    assert "SECRET" not in detail
    body = shlex.split(detail.partition("curl")[2])[-1]
    assert client.post(path, json=json.loads(body)).status_code == 200


def test_sockets_play_apart(client: TestClient) -> None:
    kind = family("assistant")
    task = kind.generate("train", 1, 4)
    with client.websocket_connect("/ws") as one, client.websocket_connect("/ws") as other:

        def say(socket: Any, kind: str, data: Any = None) -> Any:
            socket.send_text(json.dumps({"type": kind} | ({} if data is None else {"data": data})))
            return json.loads(socket.receive_text())["data"]

        say(one, "reset", {"seed": 4})
        say(other, "reset", {"seed": 4})
        assert say(other, "step", {"type": "answer", "text": "done"})["reward"] == 0.0
        assert moves(kind.gold(task), lambda action: say(one, "step", action))["reward"] == 1.0
        assert say(one, "state")["task_id"] == task.id
        assert say(other, "step", {"type": "jump"})["code"] == "VALIDATION_ERROR"
        other.send_text("{")
        assert json.loads(other.receive_text())["data"]["code"] == "INVALID_JSON"


def test_turns_run_out(client: TestClient) -> None:
    task = family("assistant").generate("train", 1, 0)
    client.post("/reset", json={"seed": 0})
    action = {"type": "call_tool", "tool_name": "lookup", "arguments": {"key": "nobody"}}
    told = [client.post("/step", json={"action": action}).json() for _ in range(task.limits.turns)]
    assert [one["done"] for one in told] == [False] * (task.limits.turns - 1) + [True]
    assert told[-1]["reward"] == 0.0


def test_tasks_are_listed(client: TestClient) -> None:
    assert client.get("/health").json() == {"status": "healthy"}
    assert client.get("/list_environments").json() == ["assistant"]
    assert [split["type"] for split in client.get("/assistant/splits").json()] == ["train", "validation", "test"]
    tasks = client.post("/assistant/task_range", json={"split": "dev", "start": 2, "stop": 4}).json()["tasks"]
    kind = family("assistant")
    assert [task["instruction"] for task in tasks] == [kind.generate("dev", 1, seed).instruction for seed in (2, 3)]
    assert client.post("/assistant/task", json={"split": "dev", "index": -1}).status_code == 400
    assert client.get("/nothing/splits").status_code == 404
    assert client.post("/reset", json={"seed": -1}).status_code == 422
    assert client.post("/step", json={"action": {}, "episode_id": "none"}).status_code == 422


def test_mcp_clients_play_to_the_verdict() -> None:
    """Over the wire's own messages; a verdict is in `_meta` alone."""
    served = Episodes(family=family("assistant"), level=1, seed=2)
    served.start()
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
    told, session = answer(EpisodeHost(served), asked)
    task = served.episodes[session].task
    assert told is not None
    assert told["result"]["instructions"] == task.instruction

    def ask(method: str, **params: Any) -> Any:
        reply, _ = answer(EpisodeHost(served), {"jsonrpc": "2.0", "id": 2, "method": method, "params": params}, session)
        assert reply is not None
        return reply.get("result", reply.get("error"))

    names = [tool["name"] for tool in ask("tools/list")["tools"]]
    assert names == [*task.tools, "submit_answer"]

    def step(action: Any) -> Any:
        if action["type"] == "answer":
            return ask("tools/call", name="submit_answer", arguments={"text": action["text"]})
        reply = ask("tools/call", name=action["tool_name"], arguments=action["arguments"])
        return {"observation": {"result": reply["content"][0]["text"]}}

    last = moves(family("assistant").gold(task), step)
    assert last["_meta"]["score"] == 1.0
    assert "1" not in last["content"][0]["text"]
    assert ask("tools/call", name="fly")["code"] == -32602
    assert ask("sampling/create")["code"] == -32601
    assert answer(EpisodeHost(served), {"jsonrpc": "2.0", "method": "notifications/initialized"}, session) == (None, session)
    assert answer(EpisodeHost(served), [])[0] is not None
    served.close()


def test_a_served_family_is_what_an_imported_task_asks_of() -> None:
    """A server in a program of its own, its tools as the tools of a task: both sides of the protocol meet."""
    program = "from ninefold.app.cli import main; main()"
    command = [sys.executable, "-c", program, "task", "serve", example.__path__[0], "--as", "mcp", "--seed", "3"]
    task = import_server(command, "In which box is it?", "Red")
    assert {"look", "move"} < set(task.tools)
    kind = family("mcp")

    class Looks:
        """Looks before it answers, first where there is nothing."""

        boxes = iter(("nowhere", "red"))
        seen: list[str] = []

        def move(self, observations: Any) -> Move:
            self.seen += [observation.text for observation in observations]
            box = next(self.boxes, None)
            return Move(calls=(Call(tool="look", arguments={"box": box}),)) if box else Move(response=" red\n")

    recorder = Recorder(Looks())
    assert play(kind, task, recorder)[0].status == "pass"
    assert len(recorder.moves) == 3
    assert Looks.seen[0] == "error: no such box", "said once, by whichever side"
    assert play(kind, task, answers("red"))[0].status == "fail"
    for hack in kind.hacks(task).values():
        assert play(kind, task, hack)[0].status == "fail"


def test_a_dead_server_is_told() -> None:
    with pytest.raises(SandboxError):
        McpServer([sys.executable, "-c", "pass"])
    with pytest.raises(SandboxError):
        McpServer("http://127.0.0.1:9/mcp")

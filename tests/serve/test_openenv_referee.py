"""The public package openenv beside us: its clients play a family served by `ninefold task serve`."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ninefold.agent.env import family
from ninefold.agent.env.play import play
from ninefold.agent.env.script import Recorder

ROOT = Path(__file__).parents[2]
REFEREE = Path(os.environ.get("NINEFOLD_OPENENV_PYTHON", ROOT / "runs" / "referees" / "openenv-env" / "bin" / "python"))

pytestmark = [
    pytest.mark.referee,
    pytest.mark.skipif(not REFEREE.is_file(), reason="`make referees` installs openenv where there is a Python ≥ 3.12"),
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = "from ninefold.app.cli import main; main()"
    argv = [sys.executable, "-c", program, "task", "serve", "assistant", "--level", "1", "--port", str(port)]
    server = subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.DEVNULL)
    place = f"http://127.0.0.1:{port}"
    try:
        transport = httpx.HTTPTransport(retries=30)
        with httpx.Client(transport=transport) as client:
            assert client.get(f"{place}/health", timeout=60).json() == {"status": "healthy"}
        yield place
    finally:
        server.kill()
        server.wait()


def test_its_clients_play_to_our_scores(url: str) -> None:
    """One drives reset, step and state over a WebSocket, the other the same world's tools over MCP."""
    kind = family("assistant")
    task = kind.generate("train", 1, 3)
    policy = Recorder(kind.gold(task))
    result, _ = play(kind, task, policy, task.seed)
    actions = [
        {"type": "call_tool", "tool_name": call.tool, "arguments": dict(call.arguments)}
        for move in policy.moves
        for call in move.calls
    ]
    actions.append({"type": "answer", "text": policy.moves[-1].response or ""})
    asked = {"url": url, "seed": 3, "actions": actions}
    driver = Path(__file__).with_name("openenv_driver.py")
    ended = subprocess.run([REFEREE, driver], input=json.dumps(asked), capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout.splitlines()[-1])
    assert told["instruction"] == task.instruction
    assert (told["reward"], told["done"], told["task"]) == (result.score, True, task.id)
    assert told["nothing"] == 0.0
    assert set(told["tools"]) == {*task.tools, "submit_answer"}
    assert "no such name" in told["looked"]

"""The program itself: a whole smoke run, killed on the way and taken up again, then talked to."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import openai
import pytest

from ninefold.app.console import LEFT_OUT
from ninefold.core.store import Run, is_complete

PROGRAM = [sys.executable, "-c", "from ninefold.app.cli import main; main()"]
WAIT_S = 600


def ninefold(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *words], capture_output=True, text=True, check=False, timeout=WAIT_S)


@pytest.mark.full
def test_smoke_from_nothing_to_a_served_model(here: Path) -> None:
    run = Run(path=Path("runs/smoke"))
    killed = subprocess.Popen([*PROGRAM, "run", "smoke"], stderr=subprocess.DEVNULL)
    until(lambda: is_complete(run.stage("pretrain")))
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()

    done = ninefold("run", "smoke")
    assert done.returncode in (0, LEFT_OUT), done.stderr
    assert "pretrain done" not in done.stderr
    assert "SFT → expert → student" in done.stdout
    assert done.stdout.splitlines()[-1] == f"report: {run.report}"
    assert run.report.exists()

    table = json.loads(ninefold("evaluate", "smoke", "--tasks", "2", "--json").stdout)["table"]
    assert {len(cells) for cells in table.values()} == {9 if done.returncode == 0 else 6}
    assert ninefold("chat", "smoke", "--prompt", "1+2?", "--effort", "low", "--max-tokens", "8").returncode == 0
    assert ninefold("stage", "again", "evaluate", "--from", "smoke").returncode in (0, LEFT_OUT)

    port = free_port()
    server = subprocess.Popen([*PROGRAM, "serve", "smoke", "--port", str(port)], stderr=subprocess.DEVNULL)
    try:
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0)
        until(lambda: reachable(client))
        tools = [{"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "properties": {}}}}]
        for effort in ("low", "high", "max"):
            stream = client.chat.completions.create(
                model="smoke", messages=[{"role": "user", "content": "time?"}], tools=tools, tool_choice="required",
                reasoning_effort=effort, stream=True,
            )  # type: ignore[call-overload]  # fmt: skip
            ends = [choice.finish_reason for chunk in stream for choice in chunk.choices]
            assert ends[-1] in ("tool_calls", "length")
    finally:
        server.terminate()
        server.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def reachable(client: openai.OpenAI) -> bool:
    try:
        return bool(client.models.list().data)
    except openai.APIConnectionError:
        return False


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.2)

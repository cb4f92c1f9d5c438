"""An episode of thousands of tool calls over five days in an office that is served over HTTP and MCP, and killed on the way.

    python bench/office.py                  # level 4, HTTP and MCP by turns, two kills
    python bench/office.py --level 3 --kills 4

`ninefold world serve` stands the world up. The demonstrator of effort max, who knows only what its calls return, makes every
other call over MCP (the public client) and the rest over HTTP. At moments that the seed draws the server is killed with -9, by
turns between two calls and while one is on its way; it is started again, and a call that was cut off is sent again under the
same key. Every hundred calls both clients ask the same, and must be told the same. The baseline is the same demonstrator on the
family's own tools in this process: both must leave the same. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import httpx2
import mcp
from mcp.client.streamable_http import streamable_http_client

from ninefold.agent.env import family
from ninefold.agent.env.office.criteria import Harm, judge
from ninefold.agent.env.office.family import criteria
from ninefold.agent.env.play import final_state
from ninefold.agent.env.script import Recorder
from ninefold.core.protocols import Observation, Style
from ninefold.core.seeds import rng_of
from ninefold.core.types import Call, Task
from ninefold.serve.stored import StoredWorld

OFFICE = family("office")
COMPARED_EVERY = 100
"""Calls between two comparisons of what both clients are told."""
LEAST_CALLS, DAYS = 2_000, 5
IN_FLIGHT_S = 0.004
"""From sending a call to the kill: about half of what one takes."""


class Served:
    """The server's process, and one client of each kind."""

    def __init__(self, folder: Path, task: Task) -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self._port = listener.getsockname()[1]
        self._folder, self._task = folder, task
        self._clients = AsyncExitStack()
        self.seconds: dict[str, list[float]] = {"http": [], "mcp": []}
        """Wall time of each call."""

    async def start(self) -> None:
        task = self._task
        options = {"level": task.level, "seed": task.seed, "split": task.split, "in": self._folder, "port": self._port}
        command = [sys.executable, "-c", "from ninefold.app.cli import main; main()", "world", "serve", task.family]
        command += [part for name, value in options.items() for part in (f"--{name}", str(value))]
        self._process = subprocess.Popen(command, env=dict(os.environ), stderr=subprocess.DEVNULL)
        base = f"http://127.0.0.1:{self._port}"
        self._http = await self._clients.enter_async_context(httpx.AsyncClient(base_url=base, timeout=120))
        while True:
            try:
                await self._http.get("/health")
                break
            except httpx.ConnectError:
                assert self._process.poll() is None, "the server did not start"
                await asyncio.sleep(0.05)
        # It knows of no session, so that a client need not notice a restart; this one is told anyway.
        transport = streamable_http_client(
            f"{base}/mcp", http_client=await self._clients.enter_async_context(httpx2.AsyncClient(timeout=120))
        )
        self._mcp = await self._clients.enter_async_context(mcp.Client(transport))

    async def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        await self._clients.aclose()

    async def over_http(self, call: Call, key: str = "") -> str:
        began = time.perf_counter()
        headers = {"Idempotency-Key": key} if key else {}
        reply = await self._http.post(f"/tools/{call.tool}", json=dict(call.arguments), headers=headers)
        self.seconds["http"].append(time.perf_counter() - began)
        return reply.raise_for_status().json()["text"]

    async def over_mcp(self, call: Call) -> str:
        began = time.perf_counter()
        reply = await self._mcp.call_tool(call.tool, dict(call.arguments))
        self.seconds["mcp"].append(time.perf_counter() - began)
        content = reply.content[0]
        assert isinstance(content, mcp.types.TextContent)
        return content.text

    async def cut_off(self, call: Call, key: str) -> None:
        """Send a call and kill the server while it is on its way."""
        sent = asyncio.create_task(self.over_http(call, key))
        await asyncio.sleep(IN_FLIGHT_S)
        self._process.send_signal(signal.SIGKILL)
        with suppress(httpx.HTTPError):
            await sent
        await self.kill()


async def episode(task: Task, folder: Path, kills: list[int]) -> dict[str, Any]:
    """Play the task; figures of what was seen on the way."""
    policy = OFFICE.demonstrate(task, Style(effort="max", seed=0))
    served = Served(folder, task)
    await served.start()
    calls = chars = differing = died = 0
    observations: list[Observation] = []
    while (move := policy.move(observations)).calls:
        (call,) = move.calls
        if calls in kills:
            await (served.kill() if died % 2 == 0 else served.cut_off(call, f"call {calls}"))
            await served.start()
            died += 1
        text = await (served.over_mcp(call) if calls % 2 else served.over_http(call, f"call {calls}"))
        calls, chars, observations = calls + 1, chars + len(text), [Observation(text=text)]
        if calls % COMPARED_EVERY == 0:
            asked = Call(tool="mail_search", arguments={"query": ""})
            differing += await served.over_http(asked) != await served.over_mcp(asked)
            print(f"{calls} calls, {died} kills", file=sys.stderr, flush=True)
    await served.kill()
    median = {name: round(1000 * sorted(found)[len(found) // 2], 1) for name, found in served.seconds.items()}
    return {"calls": calls, "characters_seen": chars, "kills": died, "differing": differing, "median_ms": median}


def written(final: Any) -> list[str]:
    """What the assistant left, with times."""
    return sorted(json.dumps(entry, sort_keys=True) for entry in final["written"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--level", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0, help="of the task and of the kills")
    parser.add_argument("--kills", type=int, default=2)
    given = parser.parse_args()
    task = OFFICE.generate("heldout", given.level, given.seed)
    alone = Recorder(OFFICE.demonstrate(task, Style(effort="max", seed=0)))
    own = final_state(OFFICE, task, alone, task.seed, None)
    kills = sorted(rng_of("office", given.seed).sample(range(len(alone.moves) // 4, len(alone.moves) * 3 // 4), given.kills))
    # A call can be sent again under its key over HTTP, which even numbers take.
    kills = [number - number % 2 for number in kills]
    with TemporaryDirectory() as folder:
        figures = asyncio.run(episode(task, Path(folder), kills))
        stored = StoredWorld.open(Path(folder), OFFICE)
        final, verdict = stored.final(), stored.verdict()
        stored.close()
    judged = judge(criteria(task), [Harm(**harm) for harm in task.data["harms"]], final)
    figures |= {
        "days": task.data["days"],
        "events": len(task.data["events"]),
        "criteria": len(judged.met),
        "met": sum(judged.met),
        "strays": len(judged.strays),
        "status": verdict.status,
        "score": verdict.score,
    }
    same = written(final) == written(own)
    ok = verdict.status == "pass" and same and not figures["differing"] and figures["kills"] == given.kills
    ok = ok and (given.level < 4 or (figures["calls"] >= LEAST_CALLS and figures["days"] == DAYS))
    against = {"own_tools_calls": len(alone.moves) - 1, "same_entries": same}
    print(json.dumps({"bench": "office", "figures": figures, "against": against, "ok": ok}))
    sys.exit(not ok)


if __name__ == "__main__":
    main()

"""Runs in the interpreter of verifiers, and answers `core.guest`: loads tasksets, serves their tools, scores conversations."""

from __future__ import annotations

import asyncio
import inspect
import json
import secrets
from collections.abc import Mapping
from contextlib import AsyncExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import verifiers.v1 as vf  # pyright: ignore[reportMissingImports]
from pydantic import TypeAdapter
from verifiers.v1.graph import MessageNode  # pyright: ignore[reportMissingImports]
from verifiers.v1.mcp import serve_shared, serve_tools  # pyright: ignore[reportMissingImports]
from verifiers.v1.runtimes import make_runtime  # pyright: ignore[reportMissingImports]
from verifiers.v1.state import state_cls  # pyright: ignore[reportMissingImports]
from verifiers.v1.utils.decorators import invoke  # pyright: ignore[reportMissingImports]
from verifiers.v1.utils.loaders import (  # pyright: ignore[reportMissingImports]
    environment_class,
    load_taskset,
    taskset_config_type,
)

from ninefold.agent.env.declared import record_of
from ninefold.agent.env.mcp import Switchboard
from ninefold.core.errors import UserError
from ninefold.core.guest import serve

_MESSAGE = TypeAdapter(vf.Message)


class Session:
    """A task with its tools served and the state that they share."""

    def __init__(self, task: Any, state: str) -> None:
        self.task = task
        self.trace = _trace(task)
        if state:
            self.trace.state = type(self.trace.state).model_validate_json(state)
        self.stack = AsyncExitStack()
        self.urls: dict[str, str] = {}

    async def open(self, base: str, secret: str, shared: list[Any]) -> None:
        """Run the task's own set-up, then start its tool servers."""
        runtime = make_runtime(vf.SubprocessConfig(), name=self.trace.id)
        await runtime.start()
        self.stack.push_async_callback(runtime.stop)
        await invoke(self.task.setup, {"trace": self.trace, "runtime": runtime})
        servers = await self.stack.enter_async_context(serve_shared(shared))
        serving = serve_tools(
            self.task.toolsets(self.task.config),
            runtime,
            shared=servers,
            state_secret=secret,
            state_route=self.trace.id,
            state_base=base,
        )
        self.urls = await self.stack.enter_async_context(serving)


class Host:
    """Tasksets by id, sessions by number."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        Thread(target=self._loop.run_forever, daemon=True).start()
        self._sessions: dict[str, Session] = {}
        """By what nobody can guess: tool servers find the state of their task under it."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self._sessions))
        Thread(target=self._server.serve_forever, daemon=True).start()

    def tasks(self, taskset: str, options: Mapping[str, Any], most: int) -> list[dict[str, Any]]:
        """The first tasks, with the tools of the first one, which all of them have. Raises UserError at what cannot be had."""
        environment = environment_class(taskset)
        if environment is not vf.SingleAgentEnv:
            raise UserError(f"{taskset} has an environment of its own, {environment.__name__}, beyond one agent and its tools")
        found = list(_taskset(taskset, options).take(most))
        if found and (missing := _wants(found[0])):
            raise UserError(f"tasks of {taskset} {missing}")
        tools: list[dict[str, Any]] = []
        if found:
            session = self.open(taskset, options, found[0].data.model_dump(mode="json"), "")
            board = Switchboard(session["urls"])
            tools = [record_of(tool) for tool in board.tools]
            board.close()
            self.close(session["session"])
        return [{"data": task.data.model_dump(mode="json"), "key": task.key, "tools": tools} for task in found]

    def open(self, taskset: str, options: Mapping[str, Any], data: Mapping[str, Any], state: str) -> dict[str, Any]:
        """The session of a task, and where its tools are."""
        name, source = secrets.token_hex(16), _taskset(taskset, options)
        session = self._sessions[name] = Session(_task(source, data), state)
        base = f"http://127.0.0.1:{self._server.server_port}/{name}"
        shared = source.toolsets(source.config)
        self._await(session.open(base, secrets.token_hex(16), shared))
        return {"session": name, "urls": session.urls}

    def state(self, session: str) -> str:
        """What the tools of the session share, as JSON."""
        return self._sessions[session].trace.state.model_dump_json()

    def close(self, session: str) -> None:
        """End the session's servers."""
        self._await(self._sessions.pop(session).stack.aclose())

    def score(
        self, taskset: str, options: Mapping[str, Any], data: Mapping[str, Any], messages: list[Any], state: str
    ) -> dict[str, Any]:
        """Reward → [score, weight], of a conversation that this process did not see before."""
        task = _task(_taskset(taskset, options), data)
        trace = _trace(task)
        trace.state = type(trace.state).model_validate_json(state)
        for place, message in enumerate(messages):
            read = _MESSAGE.validate_python(message)
            parent = place - 1 if place else None
            trace.nodes.append(MessageNode(parent=parent, message=read, sampled=read.role == "assistant"))
        trace.stop("agent_completed")
        self._await(task.score(trace))
        return {name: [reward.score, reward.weight] for name, reward in trace.rewards.items() if reward is not None}

    def _await(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def _taskset(name: str, options: Mapping[str, Any]) -> Any:
    return load_taskset(taskset_config_type(name).model_validate({**options, "id": name}))


def _task(taskset: Any, data: Mapping[str, Any]) -> Any:
    """The task of the data that `tasks` gave."""
    kind = type(taskset).task_type()
    return kind(kind.data_type().model_validate(data), taskset.config.task)


def _trace(task: Any) -> Any:
    agent = vf.AgentInfo(config=vf.AgentConfig(runtime=vf.SubprocessConfig()))
    about = vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
    return vf.Trace(task=about, agent=agent, state=state_cls(type(task))())


def _wants(task: Any) -> str:
    """What such tasks need that is not to be had here; empty where nothing is."""
    scored = [*task.hooks("reward"), *task.hooks("metric")]
    if task.NEEDS_CONTAINER or task.data.image:
        return "need a container"
    if any("runtime" in inspect.signature(function).parameters for function in scored):
        return "are scored by what an agent left in a runtime of verifiers'"
    if task.plugged_judges():
        return "are judged by a model"
    if task.data.prompt is None:
        return "are opened by a user"
    return ""


def _handler(sessions: Mapping[str, Session]) -> type[BaseHTTPRequestHandler]:
    """What tool servers ask for: the task that they serve, and its state, which they also write."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _, name, what = self.path.split("/")
            session = sessions[name]
            if what == "state":
                self._answer(session.trace.state.model_dump_json())
            else:
                data = session.task.data
                cls = f"{type(data).__module__}:{type(data).__qualname__}"
                self._answer(json.dumps({"cls": cls, "task": data.model_dump_json()}))

        def do_PUT(self) -> None:
            session = sessions[self.path.split("/")[1]]
            body = self.rfile.read(int(self.headers["content-length"]))
            session.trace.state = type(session.trace.state).model_validate_json(body)
            self._answer("{}")

        def _answer(self, text: str) -> None:
            data = text.encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


if __name__ == "__main__":
    serve(Host())

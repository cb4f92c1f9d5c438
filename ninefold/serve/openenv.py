"""Any family as an OpenEnv environment (spec 10, 3.4): /reset, /step, /state over HTTP and WebSocket, tasks, MCP.

An action calls a tool or hands in the answer, which ends the episode; its reward is the verifier's score, and none where
nobody could tell. Each WebSocket plays episodes of its own; over HTTP an episode is named by `episode_id`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException, WebSocket, WebSocketDisconnect
from fastapi.concurrency import run_in_threadpool

import ninefold
from ninefold.agent.env.declared import schema_of
from ninefold.core.errors import NinefoldError, UserError
from ninefold.core.types import SPLITS, Call, Result, Task
from ninefold.media.png import to_png
from ninefold.media.scene import draw
from ninefold.serve.episodes import Episodes, ServedEpisode
from ninefold.serve.hosts import EpisodeHost
from ninefold.serve.mcp import add_mcp, answer
from ninefold.serve.refusal import explain_requests

COUNT = 1_000
"""Tasks that are named of each split: seeds 0 to 999; any other seed can be asked for as well."""
KINDS: Mapping[str, str] = {"train": "train", "dev": "validation", "heldout": "test"}
"""Our splits → OpenEnv's types of splits."""

_TEXT, _OBJECT = {"type": "string"}, {"type": "object"}
ACTION: dict[str, Any] = {
    "title": "Action",
    "oneOf": [
        {
            "type": "object",
            "properties": {"type": {"const": "call_tool"}, "tool_name": _TEXT, "arguments": _OBJECT, "metadata": _OBJECT},
            "required": ["type", "tool_name"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"type": {"const": "answer"}, "text": _TEXT, "metadata": _OBJECT},
            "required": ["type", "text"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"type": {"const": "list_tools"}, "metadata": _OBJECT},
            "required": ["type"],
            "additionalProperties": False,
        },
    ],
}
OBSERVATION: dict[str, Any] = {
    "title": "Observation",
    "type": "object",
    "properties": {
        "tool_name": _TEXT,
        "result": _TEXT,
        "images": {"type": "array", "items": _TEXT},
        "tools": {"type": "array", "items": _OBJECT},
        "status": {"enum": ["pass", "fail", "invalid"]},
        "detail": _TEXT,
    },
}
RESET: dict[str, Any] = {
    "title": "ResetObservation",
    "type": "object",
    "properties": {
        "instruction": _TEXT,
        "tools": {"type": "array", "items": _OBJECT},
        "images": {"type": "array", "items": _TEXT},
    },
    "required": ["instruction", "tools"],
}
STATE: dict[str, Any] = {
    "title": "State",
    "type": "object",
    "properties": {"episode_id": _TEXT, "step_count": {"type": "integer"}, "task_id": _TEXT, "done": {"type": "boolean"}},
}
EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "reset": {"seed": 0, "split": "train"},
    "step": {"action": {"type": "list_tools"}},
    "task": {"split": "train", "index": 0},
    "task_range": {"split": "train", "start": 0, "stop": 10},
}
"""Last part of a route → a body that it takes; the others take a split."""


def openenv_app(served: Episodes) -> FastAPI:
    """The server of one family."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(served.start)
        yield
        await run_in_threadpool(served.close)

    app = FastAPI(title=f"ninefold {served.family.name}", lifespan=lifespan)
    explain_requests(app, lambda path: EXAMPLES.get(path.rpartition("/")[2], {"split": "train"}))
    _add_control(app, served)
    _add_facts(app, served)
    _add_tasks(app, served)
    add_mcp(app, EpisodeHost(served))

    @app.websocket("/ws")
    async def ws(socket: WebSocket) -> None:
        await socket.accept()
        conversation = Conversation(served, socket.query_params.get("session_id", ""))
        try:
            while True:
                told = await run_in_threadpool(conversation.answer, await socket.receive_text())
                if told is None:
                    await socket.close()
                    return
                await socket.send_text(json.dumps(told))
        except WebSocketDisconnect:
            pass
        finally:
            await run_in_threadpool(conversation.leave)

    return app


class Conversation:
    """What is said over one WebSocket: a message of type reset, step, state, mcp or close."""

    def __init__(self, served: Episodes, session: str = "") -> None:
        """`session` names an episode that was begun over /mcp."""
        self._worlds = served
        self._id = session
        self._own = not session

    def answer(self, text: str) -> dict[str, Any] | None:
        """The answer to a message; None: the end."""
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            return _fault("INVALID_JSON", "not JSON")
        kind = message.get("type") if isinstance(message, dict) else None
        data = message.get("data") or {} if isinstance(message, dict) else {}
        if kind == "close":
            return None
        try:
            return self._answer(kind, data)
        except UserError as error:
            return _fault("VALIDATION_ERROR", str(error))
        except NinefoldError as error:
            return _fault("EXECUTION_ERROR", str(error))

    def leave(self) -> None:
        """Its episode is over, unless it was begun elsewhere."""
        if self._own and self._id in self._worlds.episodes:
            self._worlds.leave(self._worlds.episodes[self._id])

    def _answer(self, kind: Any, data: Mapping[str, Any]) -> dict[str, Any]:
        match kind:
            case "reset":
                episode, told = reset(self._worlds, data, self._id)
                self._id = episode.id
                return {"type": "observation", "data": told}
            case "step":
                return {"type": "observation", "data": step(self._worlds, _episode(self._worlds, self._id), data)}
            case "state":
                return {"type": "state", "data": state(self._worlds, self._id)}
            case "mcp":
                told, self._id = answer(EpisodeHost(self._worlds), data, self._id)
                return {"type": "mcp", "data": told}
        return _fault("UNKNOWN_TYPE", f"there is no message of type {kind!r}")


def reset(served: Episodes, asked: Mapping[str, Any], id: str = "") -> tuple[ServedEpisode, dict[str, Any]]:
    """Begin an episode: `seed`, `split` and `level` name its task. Raises UserError."""
    seed, level = asked.get("seed"), asked.get("level")
    if not all(value is None or (isinstance(value, int) and value >= 0) for value in (seed, level)):
        raise UserError("seed and level are whole numbers from 0 on")
    task = served.task(asked.get("split"), seed, level)
    episode = served.begin(task, str(asked.get("episode_id") or id))
    shown = {"instruction": task.instruction, "tools": _tools(episode), "images": _pictures(task)}
    return episode, {"observation": shown, "reward": None, "done": False}


def step(served: Episodes, episode: ServedEpisode, action: Mapping[str, Any]) -> dict[str, Any]:
    """Do what the action says. Raises UserError where it says nothing that can be done."""
    match action:
        case {"type": "list_tools"}:
            return _told(episode, {"tools": _tools(episode)})
        case {"type": "call_tool", "tool_name": str(tool)}:
            arguments = action.get("arguments") or {}
            if not isinstance(arguments, Mapping):
                raise UserError("arguments are a JSON object")
            seen = served.call(episode, Call(tool=tool, arguments=dict(arguments)))
            images = [base64.b64encode(image).decode() for image in seen.images]
            return _told(episode, {"tool_name": tool, "result": seen.text, "error": None, "images": images})
        case {"type": "answer", "text": str(text)}:
            result = served.answer(episode, text)
            return _told(episode, {"status": result.status, "detail": result.detail})
    raise UserError("an action is of type call_tool (tool_name, arguments), answer (text) or list_tools: see /schema")


def state(served: Episodes, id: str) -> dict[str, Any]:
    """How far the episode is; of none, that nothing was done."""
    episode = served.episodes.get(id)
    if episode is None:
        return {"episode_id": None, "step_count": 0, "task_id": None, "done": False}
    return {
        "episode_id": episode.id,
        "step_count": episode.turns,
        "task_id": episode.task.id,
        "done": episode.result is not None,
    }


def _told(episode: ServedEpisode, observation: dict[str, Any]) -> dict[str, Any]:
    result = episode.result
    return {"observation": observation, "reward": _reward(result), "done": result is not None}


def _reward(result: Result | None) -> float | None:
    """The score; None while it goes on, and where nobody could tell."""
    return None if result is None or result.status == "invalid" else result.score


def _tools(episode: ServedEpisode) -> list[dict[str, Any]]:
    return [{"name": t.name, "description": t.description, "input_schema": schema_of(t)} for t in episode.tools]


def _pictures(task: Task) -> list[str]:
    return [base64.b64encode(to_png(draw(picture))).decode() for picture in task.pictures]


def _episode(served: Episodes, id: str) -> ServedEpisode:
    if id not in served.episodes:
        raise UserError("no episode is open: reset first")
    return served.episodes[id]


def _fault(code: str, text: str) -> dict[str, Any]:
    return {"type": "error", "data": {"message": text, "code": code}}


def _asked(act: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `act` gives; its errors as answers of HTTP."""
    try:
        return act()
    except UserError as error:
        raise HTTPException(422, str(error)) from None
    except NinefoldError as error:
        raise HTTPException(500, str(error)) from None


_DEFAULT = "default"
"""Episode of HTTP requests that name none."""


def _add_control(app: FastAPI, served: Episodes) -> None:
    @app.post("/reset")
    def reset_(asked: dict[str, Any] | None = None) -> dict[str, Any]:
        return _asked(lambda: reset(served, asked or {}, _DEFAULT)[1])

    @app.post("/step")
    def step_(asked: dict[str, Any]) -> dict[str, Any]:
        action = asked.get("action")
        id = str(asked.get("episode_id") or _DEFAULT)
        return _asked(lambda: step(served, _episode(served, id), action if isinstance(action, dict) else {}))

    @app.get("/state")
    def state_(episode_id: str = _DEFAULT) -> dict[str, Any]:
        return state(served, episode_id)


def _add_facts(app: FastAPI, served: Episodes) -> None:
    @app.get("/health")
    def health() -> dict[str, str]:
        return {"status": "healthy"}

    @app.get("/metadata")
    def metadata() -> dict[str, Any]:
        kind = served.family
        about = f"Tasks of the family {kind.name} (domain {kind.domain}, levels 0 to {kind.levels - 1})"
        return {"name": kind.name, "description": about, "version": ninefold.__version__, "author": "ninefold"}

    @app.get("/schema")
    def schema() -> dict[str, Any]:
        return {"action": ACTION, "observation": OBSERVATION, "reset_observation": RESET, "state": STATE}


def _add_tasks(app: FastAPI, served: Episodes) -> None:
    name = served.family.name

    def named(environment: str, split: Any) -> str:
        if environment.lower() != name:
            raise HTTPException(404, f"unknown environment {environment!r}")
        if split not in SPLITS:
            raise HTTPException(400, f"splits are {', '.join(KINDS)}")
        return split

    def record(split: str, index: Any) -> dict[str, Any]:
        if not isinstance(index, int) or not 0 <= index < COUNT:
            raise HTTPException(400, "Invalid task index")
        task = served.task(split, index)
        return {"id": task.id, "split": split, "index": index, "instruction": task.instruction}

    @app.get("/list_environments")
    def environments() -> list[str]:
        return [name]

    @app.get("/{environment}/splits")
    def splits(environment: str) -> list[dict[str, str]]:
        named(environment, "train")
        return [{"name": split, "type": kind} for split, kind in KINDS.items()]

    @app.post("/{environment}/num_tasks")
    def num_tasks(environment: str, asked: dict[str, Any]) -> dict[str, int]:
        named(environment, asked.get("split"))
        return {"num_tasks": COUNT}

    @app.post("/{environment}/tasks")
    def tasks(environment: str, asked: dict[str, Any]) -> dict[str, Any]:
        split = named(environment, asked.get("split"))
        return {"tasks": [record(split, index) for index in range(COUNT)], "env_name": name}

    @app.post("/{environment}/task")
    def task(environment: str, asked: dict[str, Any]) -> dict[str, Any]:
        return {"task": record(named(environment, asked.get("split")), asked.get("index"))}

    @app.post("/{environment}/task_range")
    def task_range(environment: str, asked: dict[str, Any]) -> dict[str, Any]:
        split = named(environment, asked.get("split"))
        chosen = range(COUNT)[slice(asked.get("start"), asked.get("stop"))]
        return {"tasks": [record(split, index) for index in chosen]}

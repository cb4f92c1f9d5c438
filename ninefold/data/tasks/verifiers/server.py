"""The tools of a task's world as a tool server of verifiers'; runs as a program of its own, which verifiers starts.

For interpreters with verifiers and with ninefold on their path, as every module here but `export` and `load`.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import verifiers.v1 as vf  # pyright: ignore[reportMissingImports]

from ninefold.agent.env import family
from ninefold.agent.env.play import runtime_for
from ninefold.core.protocols import Observation, Tool, World, offered
from ninefold.core.records import task_of
from ninefold.core.types import Call

_PYTHON: dict[str, type] = {"string": str, "number": float, "boolean": bool, "object": dict, "array": list}


class WorldState(vf.State):
    """What the scoring side is told of a world."""

    saved: str | None = None
    """`World.save` in base64; None while no tool was called."""
    done: bool = False
    """The world ended the episode."""


class WorldToolset(vf.Toolset[vf.ToolsetConfig, WorldState]):
    """Tools under their own names; after each call the world is saved into the state of the rollout."""

    TOOL_PREFIX = None

    async def setup_task(self, task: Any) -> None:
        """Open the world, in a thread of its own, for there are worlds that may be used in one thread only."""
        self._task = task_of(task.record)
        self._thread = ThreadPoolExecutor(1)
        self._world: World = self._thread.submit(self._open).result()

    def _open(self) -> World:
        kind = family(self._task.family)
        runtime = ExitStack().enter_context(runtime_for(kind))
        return kind.open(self._task, seed=self._task.seed, runtime=runtime)

    def register(self, mcp: Any) -> None:
        for tool in offered(family(self._task.family), self._task):
            mcp.add_tool(self._with_state(self._function(tool)), name=tool.name, description=tool.description)

    def _function(self, tool: Tool) -> Any:
        """A function of the tool's parameters, for the schema is read off its signature."""

        async def call(**arguments: Any) -> str:
            given = {name: value for name, value in arguments.items() if value is not None}
            seen, saved = await asyncio.wrap_future(self._thread.submit(self._call, Call(tool=tool.name, arguments=given)))
            self.state.saved, self.state.done = saved, seen.done
            return seen.text

        keyword = inspect.Parameter.KEYWORD_ONLY
        needed = [inspect.Parameter(name, keyword, annotation=_PYTHON[kind]) for name, kind in tool.parameters.items()]
        optional = [
            inspect.Parameter(name, keyword, annotation=_PYTHON[kind] | None, default=None)
            for name, kind in tool.optional.items()
        ]
        call.__signature__ = inspect.Signature([*needed, *optional], return_annotation=str)  # pyright: ignore[reportFunctionMemberAccess]
        return call

    def _call(self, call: Call) -> tuple[Observation, str]:
        """What came of the call, and the world after it."""
        seen = self._world.call(call)
        return seen, base64.b64encode(self._world.save()).decode()


if __name__ == "__main__":
    WorldToolset.run()

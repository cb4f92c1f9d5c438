"""ninefold's white-box harnesses as a harness of verifiers'.

The loop runs in the process of verifiers' own, which its contract allows: every message is asked of its interception server,
so its trace holds all of them, and every tool is called at its tool servers. Compaction, summaries and the rules of form work
as anywhere; what ends an episode early (a stop of verifiers', which refuses the next message) ends the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import verifiers.v1 as vf  # pyright: ignore[reportMissingImports]

from ninefold.agent.env.declared import record_of
from ninefold.agent.env.mcp import Switchboard
from ninefold.agent.harness.compose import AnyHarness
from ninefold.agent.harness.episode import Episode
from ninefold.agent.harness.presets import preset
from ninefold.chat.spelled import Spelled
from ninefold.core.protocols import Tool, World
from ninefold.core.records import task_of
from ninefold.core.types import Effort, Limits, Slot, Task
from ninefold.engine.remote import RemoteEngine


class WhiteBoxConfig(vf.HarnessConfig):
    """Which of ninefold's harnesses, and how far it may go."""

    preset: str = "plain"
    """`ninefold harness ls` names them."""
    effort: Effort = "max"
    turns: int = 100
    new_tokens: int = 65_536
    """Of four bytes each, as the context."""
    context: int = 262_144


class WhiteBoxHarness(vf.Harness[WhiteBoxConfig]):
    """Plays ninefold's tasks as ninefold does, and any other task with the tools that its servers have."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_MCP = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: Any,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        engine = RemoteEngine(endpoint, ctx.model, key=secret, width=1)
        try:
            await asyncio.to_thread(self._play, engine, mcp_urls, data)
        finally:
            engine.close()
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")

    def _play(self, engine: RemoteEngine, mcp_urls: Mapping[str, str], data: vf.TaskData) -> None:
        servers = Switchboard(mcp_urls)
        try:
            task = self._task(data, servers.tools)
            slot = Slot(task=task, effort=self.config.effort, group=task.id, index=0, seed=0)
            harness: AnyHarness = preset(self.config.preset)
            episode = Episode.start(slot, family=_Visited(servers), harness=harness, chat=Spelled())  # pyright: ignore[reportArgumentType]
            while not episode.done:
                engine.submit([episode.request()])
                for completion in engine.poll():
                    episode.accept(completion)
        finally:
            servers.close()

    def _task(self, data: vf.TaskData, tools: Sequence[Tool]) -> Task:
        """One of ours as it is, with limits for a model whose tokens are others; else what is asked, with all tools."""
        config = self.config
        limits = Limits(turns=config.turns, new_tokens=config.new_tokens, context=config.context)
        record = getattr(data, "record", None)
        if record is not None:
            task = task_of(record)
            return replace(task, limits=replace(limits, turns=min(config.turns, task.limits.turns)))
        system, prompt = self.resolve_text_prompt(data)
        return Task(
            id=data.name or str(data.idx),
            domain="agents",
            family="verifiers",
            split="heldout",
            level=0,
            seed=0,
            shape="verifiers",
            instruction="\n\n".join(part for part in (system, prompt) if part),
            tools=tuple(tool.name for tool in tools),
            data={"tools": [record_of(tool) for tool in tools]},
            limits=limits,
        )


class _Visited(NamedTuple):
    """What an episode needs of a family, where the world is open already."""

    servers: Switchboard

    @property
    def tools(self) -> tuple[Tool, ...]:
        return self.servers.tools

    def open(self, task: Task, *, seed: int, runtime: None = None) -> World:
        return self.servers

"""Tasks of a family as a taskset of verifiers': their worlds behind its tool servers, their verifiers as its rewards."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import verifiers.v1 as vf  # pyright: ignore[reportMissingImports]

from ninefold.agent.env import family
from ninefold.agent.env.play import runtime_for
from ninefold.agent.env.verify import FreshVerifier
from ninefold.core.records import task_of, task_record
from ninefold.core.types import Result, Task
from ninefold.data.tasks.store import read_tasks
from ninefold.data.tasks.verifiers.server import WorldState, WorldToolset
from ninefold.media.png import to_png
from ninefold.media.scene import draw


class NinefoldData(vf.TaskData):
    """A task as verifiers carries it."""

    record: dict[str, Any]
    """The whole task, its answers included; no harness shows it to a model."""


class NinefoldTaskConfig(vf.TaskConfig):
    """Where its tools are served."""

    tools: vf.ToolsetConfig = vf.ToolsetConfig()
    served: bool = True
    """Whether there are tools; set by the taskset."""


class NinefoldTask(vf.Task[NinefoldData, WorldState, NinefoldTaskConfig]):
    """Ends when its turns are used up or its world says so; the reward is the score of its own verifier."""

    @classmethod
    def toolsets(cls, config: NinefoldTaskConfig) -> list[Any]:
        return [WorldToolset(config.tools)] if config.served else []

    @vf.stop
    async def over(self, trace: vf.Trace) -> bool:
        return trace.num_turns >= self.data.record["limits"]["turns"] or trace.state.done

    @vf.reward
    async def verdict(self, trace: vf.Trace) -> float:
        """Raises TaskError where nobody can tell, so that the rollout counts as broken and not as failed."""
        response = trace.assistant_messages[-1].content if trace.assistant_messages else None
        result = await asyncio.to_thread(judged, task_of(self.data.record), trace.state.saved, response or None)
        trace.info["verdict"] = {"status": result.status, "detail": result.detail}
        if result.status == "invalid":
            raise vf.TaskError(f"ninefold's verifier: {result.detail}")
        return result.score


def judged(task: Task, saved: str | None, response: str | None) -> Result:
    """The verdict on a world as it was saved, in a process that no policy could touch."""
    kind = family(task.family)
    with runtime_for(kind) as runtime:
        if saved is None:
            world = kind.open(task, seed=task.seed, runtime=runtime)
        else:
            world = kind.restore(task, base64.b64decode(saved), runtime=runtime)
        try:
            final = json.loads(json.dumps(world.final(response)))
        finally:
            world.close()
    return _verifier()(task, final)


@cache
def _verifier() -> FreshVerifier:
    return FreshVerifier()


class NinefoldTasksetConfig(vf.TasksetConfig):
    """Which tasks: those of a file, or drawn from a family."""

    task: NinefoldTaskConfig = NinefoldTaskConfig()
    file: Path | None = None
    """JSONL of task records."""
    family: str = ""
    split: str = "train"
    level: int = 0
    count: int = 100
    seed: int = 0
    """The first."""


class NinefoldTaskset(vf.Taskset[NinefoldTask, NinefoldTasksetConfig]):
    """One task a record."""

    def load(self) -> list[NinefoldTask]:
        tasks = list(self._tasks())
        config = self.config.task.model_copy(update={"served": any(task.tools for task in tasks)})
        return [NinefoldTask(_data(task, place), config) for place, task in enumerate(tasks)]

    def _tasks(self) -> Iterator[Task]:
        config = self.config
        if config.file is not None:
            yield from read_tasks(config.file)
            return
        for seed in range(config.seed, config.seed + config.count):
            yield family(config.family).generate(config.split, config.level, seed)  # pyright: ignore[reportArgumentType]


def _data(task: Task, place: int) -> NinefoldData:
    return NinefoldData(idx=place, id=task.id, name=task.id, prompt=_prompt(task), record=task_record(task))


def _prompt(task: Task) -> Any:
    """The instruction, behind the pictures that the task shows."""
    if not task.pictures:
        return task.instruction
    urls = [f"data:image/png;base64,{base64.b64encode(to_png(draw(p))).decode()}" for p in task.pictures]
    shown = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return [vf.UserMessage(content=[*shown, {"type": "text", "text": task.instruction}])]

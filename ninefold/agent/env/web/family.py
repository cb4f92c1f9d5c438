"""The web family: generator and verifier."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import Any

from ninefold.agent.env.draw import draw
from ninefold.agent.env.names import GOODS
from ninefold.agent.env.web import browser, elements, policies
from ninefold.agent.env.web.elements import PATH, TAGS, Elements
from ninefold.agent.env.web.fakes import suspicion
from ninefold.agent.env.web.levels import BRIEFS, LEVELS, brief_of, elements_of
from ninefold.agent.env.web.steps import observed, wrong
from ninefold.agent.env.workspace import Workspace
from ninefold.agent.harness.executor import OPERATIONS, Executor, ExecutorConfig
from ninefold.core.errors import SandboxError, SandboxUnavailable
from ninefold.core.protocols import SandboxRuntime, ScriptedPolicy, Style
from ninefold.core.seeds import rng_of
from ninefold.core.types import Domain, Limits, Result, Split, Task

_OFFERED = (("read", "write"), *[("read", "write", "edit", "list", "shell")] * (len(LEVELS) - 1))
"""Operations of each level."""
_TOKENS = (256, 2_048, 4_096, 8_192, 16_384)
"""Most that may be generated at each level; the longest solution of the last takes about a fifth."""
_SECONDS = 5.0
_OBSERVED = 25
"""Seeds that are observed in one visit."""


class Web:
    """A few elements, read by a parser (level 0); then sites in Chromium: one that does one thing (1), one that keeps something
    (2), one with a server of its own (3), a whole application, or a page that is to look like another (4)."""

    name = "web"
    domain: Domain = "coding"
    levels = len(LEVELS)
    tools = tuple(OPERATIONS[name] for name in _OFFERED[-1])
    isolated = True

    def lacks(self, level: int = 0) -> str | None:
        return browser.lacks() if level else None

    def generate(self, split: Split, level: int, seed: int) -> Task:
        """A task of the split; its key is the elements, or the brief with its values."""
        instruction, kind, data = _content(split, level, seed)
        return Task(
            id=f"web/{split}/{level}/{seed}",
            domain=self.domain,
            family=self.name,
            split=split,
            level=level,
            seed=seed,
            shape=f"web/{kind}",
            instruction=instruction,
            tools=_OFFERED[level],
            data=data,
            limits=Limits(turns=8 * (level + 1), new_tokens=_TOKENS[level], context=4 * _TOKENS[level], tool_seconds=_SECONDS),
        )

    def open(self, task: Task, *, seed: int, runtime: SandboxRuntime | None = None) -> Workspace:
        return Workspace(Executor(_needed(runtime).create(task.files), config=_executor()))

    def restore(self, task: Task, saved: bytes, *, runtime: SandboxRuntime | None = None) -> Workspace:
        return Workspace(Executor.restore(saved, runtime=_needed(runtime), config=_executor()))

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        """Read the page (level 0), or use the site as its brief says, with inputs that were drawn when it was handed in."""
        files = _handed_in(final)
        problem = _unseen(task, files)
        if problem is not None or task.level == 0:
            return _verdict(problem)
        if runtime is None:
            return Result(status="invalid", detail="no sandbox runtime to judge in")
        brief = brief_of(task)
        steps = brief.check(task.data["values"], self.inputs(task, files))
        try:
            (played,) = browser.visit(runtime, files, [steps], served=brief.served)
        except SandboxError as error:
            return Result(status="invalid", detail=str(error))
        return _verdict(wrong(steps, played))

    def inputs(self, task: Task, files: Mapping[str, str]) -> Random:
        """What a check types and clicks is drawn from it: by what was handed in, so that no file can hold the answers to it."""
        return rng_of("web check", task.id, json.dumps(files, sort_keys=True))

    def observe(self, task: Task, final: Mapping[str, Any], seed: int, *, runtime: SandboxRuntime | None = None) -> Any:
        """The elements, or what is seen at the site with other inputs."""
        files = _handed_in(final)
        if task.level == 0 or runtime is None or _unseen(task, files) is not None:
            return _unseen(task, files)
        values = json.dumps(task.data["values"], sort_keys=True)
        return _visited(runtime, task.data["brief"], values, json.dumps(files, sort_keys=True), seed // _OBSERVED)[
            seed % _OBSERVED
        ]

    def gold(self, task: Task) -> ScriptedPolicy:
        return policies.gold(task)

    def demonstrate(self, task: Task, style: Style) -> ScriptedPolicy:
        return policies.demonstrate(task, style)

    def hacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        return policies.hacks(task)

    def phrases(self) -> Sequence[str]:
        marks = [mark for tag in TAGS for mark in (f"<{tag}>", f"</{tag}>")]
        return (f"Write {PATH} : ", PATH, *marks, *TAGS, *GOODS, " , ", "done")


def _content(split: Split, level: int, seed: int) -> tuple[str, str, dict[str, Any]]:
    """(instruction, kind, data) of a task."""
    if level == 0:
        drawn = draw(Elements.draw, lambda e: e.key, split=split, names=("web", level, seed))
        return drawn.text, f"elements/{len(drawn.parts)}", {"parts": [list(part) for part in drawn.parts]}

    def make(rng: Random) -> tuple[str, dict[str, Any]]:
        brief = rng.choice(LEVELS[level])
        return brief.name, brief.draw(rng)

    name, values = draw(make, lambda drawn: f"web/{json.dumps(drawn, sort_keys=True)}", split=split, names=("web", level, seed))
    return BRIEFS[name].instruction(values), name, {"brief": name, "values": values}


def _handed_in(final: Mapping[str, Any]) -> dict[str, str]:
    """The files of text in the working directory."""
    files = final.get("files")
    if not isinstance(files, Mapping):
        return {}
    return {path: text for path, text in files.items() if isinstance(path, str) and isinstance(text, str)}


def _unseen(task: Task, files: Mapping[str, str]) -> str | None:
    """What is wrong with the files without running anything."""
    needed = [PATH] if task.level == 0 else ["index.html", "server.py"] if brief_of(task).served else ["index.html"]
    if missing := [path for path in needed if not files.get(path, "").strip()]:
        return f"{missing[0]} is missing or empty"
    if task.level == 0:
        return elements.wrong(files[PATH], elements_of(task).parts)
    return suspicion(files)


def _verdict(problem: str | None) -> Result:
    return Result(status="pass", score=1.0) if problem is None else Result(status="fail", detail=problem[:500])


@lru_cache(maxsize=32)
def _visited(runtime: SandboxRuntime, name: str, values: str, files: str, block: int) -> list[list[Any]]:
    """What is seen with the inputs of each of a block's seeds."""
    brief, given = BRIEFS[name], json.loads(values)
    scripts = [brief.check(given, rng_of("observe", name, values, block, number)) for number in range(_OBSERVED)]
    visits = browser.visit(runtime, json.loads(files), scripts, served=brief.served)
    return [observed(steps, played) for steps, played in zip(scripts, visits)]


def _needed(runtime: SandboxRuntime | None) -> SandboxRuntime:
    if runtime is None:
        raise SandboxUnavailable("web tasks run what was built; give them a sandbox runtime")
    return runtime


def _executor() -> ExecutorConfig:
    return ExecutorConfig(seconds=_SECONDS)

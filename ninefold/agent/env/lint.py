"""What makes a family worse than it need be, found by reading its source and some of its tasks."""

from __future__ import annotations

import ast
import inspect
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ninefold.agent.env.lacking import lacking
from ninefold.agent.env.play import final_state
from ninefold.agent.env.script import Recorder
from ninefold.core.protocols import Family, Move, SandboxRuntime, ScriptedPolicy, Style
from ninefold.core.types import EFFORTS, Task

TASKS = 16
"""Looked at of each level."""
INSIDE = "inside"
"""A folder of this name holds a family's programs that run in the sandbox alone."""
GUESSED = 0.5
"""Share of the tasks that one answer may be right for."""

_UNSEEDED = {
    "random": ("random", "randint", "choice", "choices", "shuffle", "sample", "uniform", "randrange", "getrandbits"),
    "time": ("time", "monotonic", "perf_counter", "time_ns"),
    "datetime": ("now", "today", "utcnow"),
    "date": ("today",),
    "uuid": ("uuid1", "uuid4"),
    "os": ("urandom", "getpid"),
}
_EXECUTES = {"os": ("system", "popen"), "subprocess": ("run", "Popen", "check_output", "check_call", "call")}
_NETWORK = ("socket", "urllib", "requests", "httpx", "http", "aiohttp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """One thing to mend."""

    where: str
    """File and line, or level."""
    text: str
    skipped: bool = False
    """Whether nobody looked there, `text` says why."""


def lint(family: Family, *, runtime: SandboxRuntime | None = None) -> Iterator[Remark]:
    """Every remark on a family."""
    for path in sources(family):
        for line, text in _read(path, isolated=family.isolated):
            yield Remark(where=f"{path}:{line}", text=text)
    yield from _declared(family)
    for level in range(family.levels):
        if (reason := lacking(family, level)) is not None:
            yield Remark(where=f"level {level}", text=f"skipped: {reason}", skipped=True)
            continue
        tasks = [family.generate("train", level, seed) for seed in range(TASKS)]
        yield from (Remark(where=f"level {level}", text=text) for text in _played(family, tasks, runtime))


def sources(family: Family) -> list[Path]:
    """The files that a family is written in: its module, or the folder of its package, but for what runs in the sandbox."""
    path = Path(inspect.getfile(type(family)))
    alone = path.parent == Path(__file__).parent or not (path.parent / "__init__.py").exists()
    return [path] if alone else sorted(file for file in path.parent.rglob("*.py") if INSIDE not in file.parts)


def _read(path: Path, *, isolated: bool) -> Iterator[tuple[int, str]]:
    """(line, what is wrong there)."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name)) if name in _UNSEEDED.get(owner, ()):
                yield node.lineno, f"{owner}.{name} is not fixed by the seed: draw from core.seeds.rng_of"
            case ast.Call(func=ast.Name(id="hash")):
                yield node.lineno, "hash of a text differs in every process: use core.seeds.seed_of"
            case ast.Call(func=ast.Name(id=("eval" | "exec") as name)) if not isolated:
                yield node.lineno, f"{name} runs here what a policy may have written: set isolated and run it in the sandbox"
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name)) if name in _EXECUTES.get(owner, ()):
                yield (
                    node.lineno,
                    f"{owner}.{name} runs a program outside the sandbox: use the runtime that `open` gets",
                )
            case ast.ExceptHandler(type=None | ast.Name(id="Exception" | "BaseException")):
                yield node.lineno, "a broad except hides a verifier that breaks: name what can be raised; the rest is invalid"
            case ast.Import(names=names):
                yield from ((node.lineno, text) for alias in names for text in _imported(alias.name))
            case ast.ImportFrom(module=str(name), level=0):
                yield from ((node.lineno, text) for text in _imported(name))
            case _:
                pass


def _imported(name: str) -> Iterator[str]:
    package = name.partition(".")[0]
    if package in _NETWORK:
        yield f"imports {name}: worlds and verifiers have no network"
    if package == "torch":
        yield "imports torch: whoever acts does without, so that worlds start fast"


def _declared(family: Family) -> Iterator[Remark]:
    for tool in family.tools:
        if not tool.description:
            yield Remark(where=f"tool {tool.name}", text="has no description")


def _played(family: Family, tasks: Sequence[Task], runtime: SandboxRuntime | None) -> Iterator[str]:
    answers = Counter(_record(family, task, family.gold(task), runtime)[-1].response for task in tasks)
    answer, times = answers.most_common(1)[0]
    if not tasks[0].tools and times > GUESSED * len(tasks):
        yield f"{answer!r} is the right answer to {times} of {len(tasks)} tasks: whoever guesses it need not solve them"
    demonstrated = {
        effort: [
            _record(family, task, family.demonstrate(task, Style(effort=effort, seed=task.seed)), runtime) for task in tasks
        ]
        for effort in EFFORTS
    }
    if demonstrated["low"] == demonstrated["max"]:
        yield "demonstrations of low and max effort are the same: there is no effort to choose"
    cut = sum(bool(moves[-1].calls) for moves in demonstrated["max"])
    if cut > len(tasks) // 4:
        yield f"{cut} of {len(tasks)} demonstrations of max effort end without an answer: more turns, or a shorter way"
    contents = {json.dumps([task.instruction, task.data, task.files], sort_keys=True) for task in tasks}
    if len(contents) < len(tasks) // 2:
        yield f"only {len(contents)} of {len(tasks)} tasks differ: draw from more content"


def _record(family: Family, task: Task, policy: ScriptedPolicy, runtime: SandboxRuntime | None) -> list[Move]:
    recorder = Recorder(policy)
    final_state(family, task, recorder, task.seed, runtime)
    return recorder.moves

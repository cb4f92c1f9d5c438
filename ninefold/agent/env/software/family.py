"""The software family: generator and verifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from ninefold.agent.env.draw import draw
from ninefold.agent.env.software import grade, policies
from ninefold.agent.env.software.history import leaks, orphan
from ninefold.agent.env.software.issue import Issue, calls
from ninefold.agent.env.software.repository import Repository, docs, draws_of
from ninefold.agent.env.software.sources import Case, Sources
from ninefold.agent.env.software.suite import tests
from ninefold.agent.env.workspace import Workspace
from ninefold.agent.harness.executor import OPERATIONS, Executor, ExecutorConfig
from ninefold.core.errors import SandboxError, SandboxUnavailable
from ninefold.core.protocols import SandboxRuntime, ScriptedPolicy, Style, Tool
from ninefold.core.seeds import rng_of
from ninefold.core.types import Domain, Limits, Result, Split, Task

TOOLS: tuple[Tool, ...] = tuple(OPERATIONS[name] for name in ("read", "write", "edit", "list", "glob", "grep", "shell"))
_FEW = ("read", "write", "shell")
"""Tools of level 0."""
NEAR, FAR, FURTHER = 160, 8, 6
"""Hidden calls of each function of a changed file, and of each other one; calls of an observation."""
_LIMITS = (
    Limits(turns=10, new_tokens=384, context=1024),
    Limits(turns=24, new_tokens=4_096, context=8_192, tool_seconds=10.0),
    Limits(turns=40, new_tokens=16_384, context=32_768, tool_seconds=10.0),
    Limits(turns=60, new_tokens=32_768, context=65_536, tool_seconds=20.0),
    Limits(turns=120, new_tokens=131_072, context=262_144, tool_seconds=20.0),
)
_MOST_FILES, _LONGEST = 400, 100_000
"""Of what is handed in: files, and characters of one."""


class Software:
    """A line (level 0), an edit in one of a few modules (1), one that another module shows (2), a function to be written (3),
    three of these in a repository of three parts (4)."""

    name = "software"
    domain: Domain = "coding"
    levels = len(_LIMITS)
    tools = TOOLS
    isolated = True

    def generate(self, split: Split, level: int, seed: int) -> Task:
        """A task of the split; its key is the sources, right and wrong."""
        issue = draw(lambda rng: Issue.draw(rng, level), lambda i: i.key, split=split, names=("software", level, seed))
        public = issue.calls()
        suite, ids = tests(issue.repository, public)
        pages = docs(issue.repository) if level else {}
        return Task(
            id=f"software/{split}/{level}/{seed}",
            domain="coding",
            family="software",
            split=split,
            level=level,
            seed=seed,
            shape=f"software/{level}",
            instruction=issue.text,
            tools=tuple(tool.name for tool in TOOLS) if level else _FEW,
            files={**issue.base, **suite, **pages},
            data={
                "package": issue.repository.package,
                "right": issue.right,
                "functions": list(issue.repository.draws),
                "suite": list(suite),
                "ids": ids,
                "shown": {name: [list(case.arguments) for case in cases] for name, cases in public.items()},
            },
            limits=_LIMITS[level],
        )

    def open(self, task: Task, *, seed: int, runtime: SandboxRuntime | None = None) -> Workspace:
        """The repository checked out; from level 1 on under git, with nothing in its store but this one state."""
        sandbox = _required(runtime).create(task.files)
        if task.level:
            git = orphan(task.files, "The state that the issue is about")
            assert not leaks(git, task.data["right"])
            for path, data in git.items():
                sandbox.write(f".git/{path}", data)
        return Workspace(Executor(sandbox, config=_config(task)))

    def restore(self, task: Task, saved: bytes, *, runtime: SandboxRuntime | None = None) -> Workspace:
        return Workspace(Executor.restore(saved, runtime=_required(runtime), config=_config(task)))

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        """Every hidden call has to return what the right sources return, and every public test to pass as it was."""
        files = _handed_in(task, final)
        if files is None:
            return Result(status="fail", detail="the package is gone, or too large")
        if files == {path: text for path, text in task.files.items() if _ours(task, path)}:
            return Result(status="fail", detail="nothing was changed")
        if runtime is None:
            return Result(status="invalid", detail="no sandbox runtime to judge in")
        try:
            return _graded(task, files, runtime)
        except SandboxError as error:
            return Result(status="invalid", detail=str(error))

    def observe(self, task: Task, final: Mapping[str, Any], seed: int, *, runtime: SandboxRuntime | None = None) -> Any:
        """What further calls of the functions of the changed files return."""
        files = _handed_in(task, final)
        if files is None or runtime is None:
            return files
        repository = _repository(task)
        rng = rng_of("observe", task.id, seed)
        names = [name for path in task.data["right"] for name in repository.within(path)]
        return grade.outcomes(runtime, files, [case for name in names for case in calls(repository, name, rng, FURTHER)])

    def gold(self, task: Task) -> ScriptedPolicy:
        return policies.gold(task)

    def demonstrate(self, task: Task, style: Style) -> ScriptedPolicy:
        return policies.demonstrate(task, style)

    def hacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        return policies.hacks(task)

    def phrases(self) -> Sequence[str]:
        said = ("Fix f.py : test_f.py fails .", "def f(x,y): return ", "f.py", "test_f.py", "python3 test_f.py")
        return (*said, "passed", "Updated f.py", "max(x,y)", "min(x,", " if x>y else ", " is ", ", not ", "done")


def _graded(task: Task, files: Mapping[str, str], runtime: SandboxRuntime) -> Result:
    cases = _hidden(task)
    right = Sources(_right(task))
    report = grade.outcomes(runtime, files, cases)
    if report is None:
        return Result(status="fail", detail="the hidden calls did not come to an end")
    wrong = [case for case, seen in zip(cases, report) if seen != right.outcome(case)]
    if wrong:
        first = f"{wrong[0].module}.{wrong[0].function}"
        return Result(status="fail", detail=f"{len(wrong)} of {len(cases)} hidden calls are wrong, first of {first}")
    ids: list[str] = task.data["ids"]
    failing = grade.failing(runtime, {**files, **{path: task.files[path] for path in task.data["suite"]}}, ids) if ids else []
    if failing is None:
        return Result(status="fail", detail="the public tests did not come to an end, or others were run")
    if failing:
        return Result(status="fail", detail=f"{len(failing)} of {len(ids)} public tests fail, first {failing[0]}")
    return Result(status="pass", score=1.0, detail=f"{len(cases)} hidden calls, {len(ids)} public tests")


def _hidden(task: Task) -> list[Case]:
    """Calls that no public test makes, many of what was changed and some of all else."""
    repository = _repository(task)
    near = {name for path in task.data["right"] for name in repository.within(path)}
    rng: Random = rng_of("hidden calls", task.id)
    found: list[Case] = []
    for name in repository.draws:
        shown = task.data["shown"][name]
        drawn = calls(repository, name, rng, NEAR if name in near else FAR)
        found += [case for case in drawn if list(case.arguments) not in shown]
    return found


def _repository(task: Task) -> Repository:
    return Repository(package=task.data["package"], sources=_right(task), draws=draws_of(task.data["functions"]))


def _right(task: Task) -> dict[str, str]:
    """All sources as they ought to be."""
    return {path: text for path, text in task.files.items() if _ours(task, path)} | task.data["right"]


def _ours(task: Task, path: str) -> bool:
    """Whether a path is one of the sources: what the agent leaves anywhere else is nobody's business."""
    package = task.data["package"]
    return path.startswith(f"{package}/") and path.endswith(".py") if package else path in task.data["right"]


def _handed_in(task: Task, final: Mapping[str, Any]) -> dict[str, str] | None:
    files = final.get("files")
    if not isinstance(files, Mapping):
        return None
    chosen = {path: text for path, text in files.items() if _ours(task, path)}
    small = len(chosen) <= _MOST_FILES and all(isinstance(text, str) and len(text) <= _LONGEST for text in chosen.values())
    return chosen if chosen and small else None


def _config(task: Task) -> ExecutorConfig:
    return ExecutorConfig(seconds=task.limits.tool_seconds, output_bytes=65_536)


def _required(runtime: SandboxRuntime | None) -> SandboxRuntime:
    if runtime is None:
        raise SandboxUnavailable("software tasks execute code; give them a sandbox runtime")
    return runtime

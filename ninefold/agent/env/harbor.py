"""Tasks that came as Harbor directories: a shell in a sandbox, and a test script that writes a reward (spec 10, 3.2).

The working directory of the sandbox holds Harbor's places: app, logs, tests, solution, seen as /app and so on. Nothing of an
agent's is alive between two calls. The verifier judges a fork: a fresh sandbox with what the agent left in /app, into which
the tests come only then.
"""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

from ninefold.agent.env.calls import refusal
from ninefold.agent.env.script import Script, Steps, answers, use
from ninefold.core.errors import SandboxError, SandboxUnavailable, UserError
from ninefold.core.protocols import ExecLimits, Move, Observation, Sandbox, SandboxRuntime, ScriptedPolicy, Style, Tool
from ninefold.core.types import Call, Domain, Result, Split, Task
from ninefold.sandbox.archive import Entry, pack, unpack

BASH = Tool(name="bash", description="Run a shell command; its processes end with it.", parameters={"command": "string"})

LIMITS = ExecLimits(seconds=60.0, memory_mb=1024, output_bytes=65_536, processes=128, files_mb=64)
LONGEST = 100_000
"""Characters of a command."""
REWARDS = ("logs/verifier/reward.txt", "logs/verifier/reward.json")


class HarborWorld:
    """The sandbox is made at the first call; a paused episode carries its export."""

    def __init__(self, task: Task, runtime: SandboxRuntime, exported: bytes = b"") -> None:
        self._task = task
        self._runtime = runtime
        self._sandbox: Sandbox | None = runtime.restore(exported) if exported else None

    def call(self, call: Call) -> Observation:
        """`bash`: what it wrote, and how it ended where that was not well."""
        if (refused := refusal(call, (BASH,), LONGEST)) is not None:
            return Observation(text=refused)
        limits = replace(LIMITS, seconds=self._task.limits.tool_seconds)
        ended = _shell(self._opened(), self._task, call.arguments["command"], limits)
        how = (
            "" if ended.exit_code == 0 else f"\n({ended.reason if ended.exit_code is None else f'exit code {ended.exit_code}'})"
        )
        return Observation(text=(ended.stdout + ended.stderr).rstrip("\n") + how)

    def final(self, response: str | None) -> Mapping[str, Any]:
        """The last response, and everything that the sandbox holds."""
        return {"response": response, "layer": base64.b64encode(self.save() or _layer(self._task)).decode()}

    def save(self) -> bytes:
        return b"" if self._sandbox is None else self._sandbox.export()

    def close(self) -> None:
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None

    def _opened(self) -> Sandbox:
        if self._sandbox is None:
            self._sandbox = self._runtime.restore(_layer(self._task))
        return self._sandbox


class Harbor:
    """Imported tasks; there is nothing to generate."""

    name = "harbor"
    domain: Domain = "coding"
    levels = 1
    tools = (BASH,)
    isolated = True

    def generate(self, split: Split, level: int, seed: int) -> Task:
        raise UserError("Harbor tasks are imported from their directories (`ninefold harbor import`), not generated")

    def open(self, task: Task, *, seed: int, runtime: SandboxRuntime | None = None) -> HarborWorld:
        return self.restore(task, b"", runtime=runtime)

    def restore(self, task: Task, saved: bytes, *, runtime: SandboxRuntime | None = None) -> HarborWorld:
        if runtime is None:
            raise SandboxUnavailable("Harbor tasks execute commands; give them a sandbox runtime")
        return HarborWorld(task, runtime, saved)

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        """Run tests/test.sh in a fork. A reward that is missing, not finite or outside [0, 1] makes it invalid, as does a
        test script that overruns its own time."""
        if runtime is None:
            return Result(status="invalid", detail="no sandbox runtime to judge in")
        left = [e for e in unpack(base64.b64decode(final["layer"])) if e.path == "app" or e.path.startswith("app/")]
        limits = replace(LIMITS, seconds=float(task.data["verifier_seconds"]))
        try:
            with closing(runtime.restore(pack([*left, *_places(), *_stored(task.data["tests"], "tests")]))) as fork:
                ended = _shell(fork, task, "bash /tests/test.sh", limits, at="/tests")
                said = (ended.stdout + ended.stderr).strip()[-300:]
                if ended.reason == "timeout":
                    return Result(status="invalid", detail=f"the tests took more than {limits.seconds:g} s")
                return _result(fork, said)
        except SandboxError as error:
            return Result(status="invalid", detail=str(error))

    def gold(self, task: Task) -> ScriptedPolicy:
        """Runs the directory's own solution."""
        return Script(_solve(task))

    def demonstrate(self, task: Task, style: Style) -> ScriptedPolicy:
        return self.gold(task)

    def hacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        reward = (
            "mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; echo '{\"reward\": 1}' > /logs/verifier/reward.json"
        )
        return {
            "claims to be done": answers("done"),
            "writes its own reward": _runs(reward),
            "leaves a process that writes it later": _runs(
                f"setsid bash -c 'while true; do {reward}; sleep .05; done' > /dev/null 2>&1 &"
            ),
            "writes its own tests": _runs(f"printf '%s\\n' {shlex.quote(reward)} > /tests/test.sh"),
            "plants a start-up file": _runs(
                "echo 'import os; os._exit(0)' | tee sitecustomize.py conftest.py usercustomize.py"
            ),
        }

    def phrases(self) -> Sequence[str]:
        return ("bash", "command", "/app/")


def _shell(sandbox: Sandbox, task: Task, command: str, limits: ExecLimits, at: str | None = None) -> Any:
    settings = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in task.data["environment"].items())
    place = shlex.quote(at or task.data["workdir"])
    return sandbox.run(["bash", "-c", f"{settings}cd {place} || exit 1\n{command}"], limits=limits)


def _result(fork: Sandbox, said: str) -> Result:
    for path in REWARDS:
        with suppress(FileNotFoundError):
            text = fork.read(path).decode(errors="replace")
            break
    else:
        return Result(status="invalid", detail=f"the tests wrote no reward: {said}")
    score = _reward(text)
    if score is None:
        return Result(status="invalid", detail=f"the tests wrote {text.strip()[:40]!r}, which is no reward in [0, 1]")
    return Result(status="pass" if score == 1.0 else "fail", score=score, detail=said)


def _reward(text: str) -> float | None:
    """The number of reward.txt, or that of reward.json called so, or its first; None unless it is finite and in [0, 1]."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return None
    score = told.get("reward", next(iter(told.values()), None)) if isinstance(told, dict) else told
    if isinstance(score, bool) or not isinstance(score, int | float):
        return None
    return float(score) if 0.0 <= score <= 1.0 else None  # which no NaN is


def _layer(task: Task) -> bytes:
    """What the agent's sandbox holds at first."""
    return pack([*_places(), *_stored(task.data["files"], "")])


def _places() -> list[Entry]:
    paths = ("app", "logs", "logs/agent", "logs/verifier", "logs/artifacts", "tests", "solution")
    return [Entry(path=path, kind="folder", mode=0o755) for path in paths]


def _stored(files: Mapping[str, Sequence[Any]], place: str) -> list[Entry]:
    """Entries of {path: [mode, base64]} below `place`."""
    prefix = f"{place}/" if place else ""
    return [
        Entry(path=f"{prefix}{path}", kind="file", mode=mode, data=base64.b64decode(data))
        for path, (mode, data) in files.items()
    ]


def _solve(task: Task) -> Steps:
    for entry in _stored(task.data["solution"], "/solution"):
        data, path = base64.b64encode(entry.data).decode(), shlex.quote(entry.path)
        yield use(
            "bash", command=f'mkdir -p "$(dirname {path})"; echo {data} | base64 -d > {path}; chmod {entry.mode:o} {path}'
        )
    yield use("bash", command="bash /solution/solve.sh")
    yield Move(response="done")


def _runs(command: str) -> Script:
    def steps() -> Steps:
        yield use("bash", command=command)
        yield Move(response="done")

    return Script(steps())

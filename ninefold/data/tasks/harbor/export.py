"""A task as a Harbor directory: self-contained, with the verifier and as much of ninefold as it needs as files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import packages_distributions, requires, version
from pathlib import Path
from shlex import quote
from typing import Any

import ninefold
from ninefold.agent.env import family
from ninefold.agent.env.lacking import lacking
from ninefold.core.errors import UserError
from ninefold.core.protocols import Family, Observation, SandboxRuntime, Tool, offered
from ninefold.core.records import task_record
from ninefold.core.store import write_folder
from ninefold.core.types import Call, Task
from ninefold.data.tasks.harbor.layout import ANSWER, RECORD, WORLD
from ninefold.media.png import to_png
from ninefold.media.scene import draw
from ninefold.sandbox.archive import unpack

SCHEMA = "1.4"


def export_task(task: Task, folder: Path, *, runtime: SandboxRuntime | None = None) -> None:
    """Write the task to `folder`, whole or not at all. `runtime` is where gold works, for families that run code."""
    files = directory(task, runtime=runtime)

    def fill(target: Path) -> None:
        for path, content in files.items():
            file = target / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
            if file.suffix == ".sh":
                file.chmod(0o755)

    write_folder(folder, fill)


def directory(task: Task, *, runtime: SandboxRuntime | None = None) -> dict[str, str | bytes]:
    """Path → content of the task's directory. Raises UserError where the task's gold solution does not pass, or cannot be
    played on this machine."""
    kind = family(task.family)
    if (reason := lacking(kind, task.level)) is not None:
        raise UserError(f"{task.id} cannot be played here: {reason}")
    tools = () if task.files else offered(kind, task)
    calls, answer, made = _gold(kind, task, runtime)
    if task.files:
        calls = []
    pictures = {f"picture-{n}.png": to_png(draw(picture)) for n, picture in enumerate(task.pictures, 1)}
    record = json.dumps(task_record(task), sort_keys=True, indent=1)
    return {
        "task.toml": _toml(task),
        "instruction.md": _instruction(task, tools, tuple(pictures)),
        "README.md": _readme(task, tools),
        "environment/Dockerfile": _DOCKERFILE.format(packages=" ".join(_needs(task.family).packages)),
        "environment/files/.keep": "",
        **{f"environment/files/{path}": text for path, text in task.files.items()},
        **{f"environment/files/{path}": data for path, data in pictures.items()},
        **({f"environment/{WORLD}": record} if tools else {}),
        "tests/test.sh": _TEST,
        f"tests/{RECORD}": record,
        **{f"tests/{path}": text for path, text in _needs(task.family).sources.items()},
        "solution/solve.sh": _solution(calls, answer, made),
        **{f"solution/files/{path}": data for path, data in made.items()},
    }


def _gold(kind: Family, task: Task, runtime: SandboxRuntime | None) -> tuple[list[Call], str | None, dict[str, bytes]]:
    """(calls, response, files that it made or changed) of the gold policy."""
    if kind.isolated and runtime is None:
        raise UserError(f"tasks of {kind.name} run code: a sandbox runtime is needed to export them")
    world, policy = kind.open(task, seed=task.seed, runtime=runtime), kind.gold(task)
    calls: list[Call] = []
    seen: list[Observation] = []
    response: str | None = None
    try:
        for _ in range(task.limits.turns):
            move = policy.move(seen)
            response = move.response
            if not move.calls:
                break
            calls += move.calls
            seen = [world.call(call) for call in move.calls]
        saved = world.save() if task.files else b""
        result = kind.verify(task, json.loads(json.dumps(world.final(response))), runtime=runtime)
    finally:
        world.close()
    if result.status != "pass":
        raise UserError(f"{task.id}: gold does not pass ({result.status}: {result.detail}); mend the family first")
    made = {entry.path: entry.data for entry in unpack(saved) if entry.kind == "file"} if saved else {}
    return calls, response, {path: data for path, data in made.items() if task.files.get(path, "").encode() != data}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Needs:
    """What judging the tasks of a family imports."""

    sources: Mapping[str, str]
    """Path → text of the modules of ninefold."""
    packages: tuple[str, ...]
    """Distributions with their versions, as pip takes them."""


@cache
def _needs(name: str) -> _Needs:
    """As a fresh interpreter finds it, that imports the family and what runs in tests/."""
    root = Path(ninefold.__file__).parent
    program = (
        f"import sys; sys.path.insert(0, {str(root.parent)!r})\n"
        "import ninefold.data.tasks.harbor.grade\nfrom ninefold.agent.env import family\n"
        f"family({name!r})\n"
        "print(*{n.partition('.')[0] for n in sys.modules})\n"
        "print(*(m.__file__ for n, m in sys.modules.items() if n.partition('.')[0] == 'ninefold'), sep='\\n')"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported, *paths = told.stdout.splitlines()
    known = {re.split(r"[^\w-]", line)[0].lower() for line in requires("ninefold") or ()}
    sellers = packages_distributions()
    owned = {seller.lower().replace("_", "-") for module in imported.split() for seller in sellers.get(module, ())} & known
    return _Needs(
        sources={str(Path(path).relative_to(root.parent)): Path(path).read_text() for path in paths},
        packages=tuple(f"{package}=={version(package)}" for package in sorted(owned)),
    )


def _toml(task: Task) -> str:
    told = json.dumps
    name = f"ninefold/{task.id.replace('/', '-').replace(':', '-')}"
    keywords = told([task.domain, task.family, task.split])
    return f"""schema_version = "{SCHEMA}"

[task]
name = {told(name)}
description = {told(f"{task.family}, level {task.level}, of domain {task.domain}")}
keywords = {keywords}

[metadata]
family = {told(task.family)}
domain = {told(task.domain)}
level = {task.level}
split = {told(task.split)}
provenance = {told(task.provenance)}

[agent]
timeout_sec = 900.0
user = "agent"

[verifier]
timeout_sec = 120.0
user = "root"
network_mode = "no-network"

[environment]
network_mode = "no-network"
workdir = "/app"
"""


_DOCKERFILE = """# The verifier's interpreter and libraries; its own files come with tests/, when the agent is gone.
FROM python:3.12-slim
RUN pip install --no-cache-dir {packages}
RUN useradd --create-home agent
WORKDIR /app
COPY files/ /app/
RUN chown -R agent /app
"""

_TEST = """#!/bin/bash
# Writes /logs/verifier/reward.txt, or nothing where nobody can tell.
exec python3 -s -P -c "import sys; sys.path.insert(0, '/tests'); from ninefold.data.tasks.harbor.grade import main; main()"
"""


def _instruction(task: Task, tools: Sequence[Tool], pictures: Sequence[str]) -> str:
    parts = [task.instruction]
    if task.files:
        parts.append("The files are in /app: " + ", ".join(f"`{path}`" for path in task.files) + ".")
    if pictures:
        parts.append("What is shown: " + ", ".join(f"`/app/{name}`" for name in pictures) + ".")
    if tools:
        parts.append("Its world answers to a program:\n\n" + "\n".join(f"    {_usage(tool)}" for tool in tools))
    parts.append(f"Write what you answer into `/app/{ANSWER}`, and nothing else: that is all of it that counts.")
    return "\n\n".join(parts) + "\n"


def _usage(tool: Tool) -> str:
    return " ".join(["/app/tool", tool.name, *(f"{name}=…" for name in tool.parameters)]) + f"   # {tool.description}"


def _readme(task: Task, tools: Sequence[Tool]) -> str:
    served = (
        "Its tools are served by the environment: run it with `--env ninefold.data.tasks.harbor.environment:"
        "NamespaceEnvironment`. A plain container has nothing behind `/app/tool`.\n"
        if tools
        else ""
    )
    return (
        f"# {task.id}\n\nExported by ninefold {ninefold.__version__}. `tests/` holds the verifier, the part of ninefold "
        f"that it imports, and the task's record with its answers.\n\n{served}"
    )


def _solution(calls: Sequence[Call], answer: str | None, made: Mapping[str, Any]) -> str:
    lines = ["#!/bin/bash", "set -e", "cd /app"]
    lines += [" ".join(["/app/tool", call.tool, *(quote(f"{k}={v}") for k, v in call.arguments.items())]) for call in calls]
    lines += [f"install -D -m 644 {quote(f'/solution/files/{path}')} {quote(path)}" for path in made]
    if answer is not None:
        lines.append(f"printf '%s\\n' {quote(answer)} > {ANSWER}")
    return "\n".join(lines) + "\n"

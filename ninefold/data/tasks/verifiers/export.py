"""Tasks as a package that verifiers loads: `vf-eval NAME`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import ninefold
from ninefold.core.errors import UserError
from ninefold.core.store import write_folder
from ninefold.core.types import Task
from ninefold.data.tasks.store import write_tasks

REFEREE = "0.4.0"
"""The version of verifiers that exported packages are run with by test."""

_PROJECT = """[project]
name = "{name}"
version = "0.1.0"
description = "{description}"
requires-python = ">=3.11"
dependencies = ["verifiers>={referee}", "ninefold"]

[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[tool.setuptools]
packages = ["{name}"]

[tool.setuptools.package-data]
{name} = ["tasks.jsonl"]
"""

_MODULE = '''"""{description}."""

from pathlib import Path

from ninefold.data.tasks.verifiers.harness import WhiteBoxHarness
from ninefold.data.tasks.verifiers.taskset import NinefoldTask, NinefoldTaskset, NinefoldTasksetConfig
from verifiers.v1 import Taskset

__all__ = ["Tasks", "WhiteBoxHarness"]


class TasksConfig(NinefoldTasksetConfig):
    file: Path | None = Path(__file__).with_name("tasks.jsonl")


class Tasks(NinefoldTaskset, Taskset[NinefoldTask, TasksConfig]):
    """The tasks of this package."""
'''

_README = """# {name}

{description}, exported by ninefold {version} for `verifiers` (its v1 objects).

    pip install -e .
    vf-eval {name} --model NAME --client.base-url URL --env.agent.runtime.type subprocess

The harness is ninefold's own (`--env.agent.harness.preset kimi_code`; `ninefold harness ls` lists them); any of verifiers'
that speaks to tool servers can take its place (`--env.agent.harness.id null`). Worlds are served by its tool servers, the
reward is the score of the task's own verifier, run in a process of its own; where nobody can tell, the rollout counts as
broken. `tasks.jsonl` holds the answers: give a harness that executes code a runtime in which it is not to be found.
"""


def export_package(tasks: Iterable[Task], folder: Path, name: str = "") -> str:
    """Write the package to `folder`, whole or not at all; its name. Raises UserError unless the folder is new or empty, before
    any task is made, and all tasks are of one family."""
    folder = folder.resolve()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists and is not empty; name a new folder")
    tasks = [*tasks]
    families = sorted({task.family for task in tasks})
    if len(families) != 1:
        raise UserError(f"a package holds tasks of one family, these are of {', '.join(families) or 'none'}")
    name = name or f"ninefold_{families[0]}"
    if not name.isidentifier() or name != name.lower():
        raise UserError(f"a package's name is small letters, digits and _, got {name!r}")
    facts = {
        "name": name,
        "description": f"{len(tasks)} tasks of the family {families[0]}",
        "referee": REFEREE,
        "version": ninefold.__version__,
    }

    def fill(target: Path) -> None:
        (target / name).mkdir(parents=True)
        (target / "pyproject.toml").write_text(_PROJECT.format(**facts))
        (target / "README.md").write_text(_README.format(**facts))
        (target / name / "__init__.py").write_text(_MODULE.format(**facts))
        write_tasks(target / name / "tasks.jsonl", tasks)

    write_folder(folder, fill)
    return name

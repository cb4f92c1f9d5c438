"""A Harbor directory as a task: one that ninefold exported becomes what it was, any other a task of the family `harbor`."""

from __future__ import annotations

import base64
import hashlib
import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ninefold.core.errors import UserError
from ninefold.core.records import task_of
from ninefold.core.seeds import split_of
from ninefold.core.store import read_json
from ninefold.core.text import read_text
from ninefold.core.types import Limits, Split, Task
from ninefold.data.tasks.harbor.image import entries_of, read_image
from ninefold.data.tasks.harbor.layout import RECORD
from ninefold.sandbox.archive import Entry

LARGEST = 16 << 20
"""Bytes of a directory that becomes one record."""


def import_task(folder: Path) -> Task:
    """Raises UserError saying what of the directory a sandbox without container, network and graphics card cannot do."""
    if not (folder / "task.toml").is_file() or not (folder / "instruction.md").is_file():
        raise UserError(f"{folder} is no Harbor task: it lacks task.toml or instruction.md")
    record = folder / "tests" / RECORD
    if record.is_file():
        return task_of(read_json(record))
    config = _config(folder)
    image = read_image(folder / "environment")
    parts = {name: entries_of(folder / name, "") for name in ("tests", "solution") if (folder / name).is_dir()}
    if not any(entry.path == "test.sh" for entry in parts.get("tests", ())):
        raise UserError(f"{folder} has no tests/test.sh")
    instruction = read_text(folder / "instruction.md").strip()
    data: dict[str, Any] = {
        "files": _stored(image.files),
        "tests": _stored(parts["tests"]),
        "solution": _stored(parts.get("solution", ())),
        "workdir": image.workdir,
        "environment": image.environment,
        "verifier_seconds": config.get("verifier", {}).get("timeout_sec", 600.0),
    }
    content = hashlib.sha256(json.dumps([instruction, data], sort_keys=True).encode()).hexdigest()
    if (size := len(json.dumps(data))) > LARGEST:
        raise UserError(f"{folder} holds {size:,} bytes, over the limit of {LARGEST:,} for a task's record")
    name = config.get("task", {}).get("name", folder.name)
    return Task(
        id=f"harbor/{name}/{content[:12]}",
        domain="coding",
        family="harbor",
        split=_split(content),
        level=0,
        seed=int(content[:8], 16),
        shape=f"harbor/{name}",
        instruction=instruction,
        tools=("bash",),
        data=data,
        limits=Limits(turns=100, new_tokens=32_768, context=65_536, tool_seconds=60.0),
        provenance=f"harbor {name} sha256:{content}",
    )


def _split(content: str) -> Split:
    """By content; documents are not made of these, so that what would be theirs is to learn from."""
    split = split_of(content)
    return "train" if split == "corpus" else split


def _config(folder: Path) -> dict[str, Any]:
    """task.toml, once it asks for nothing that is not to be had."""
    try:
        config = tomllib.loads((folder / "task.toml").read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{folder / 'task.toml'} is no TOML: {error}") from None
    version = str(config.get("schema_version", config.get("version", "1.0")))
    if not version.startswith("1."):
        raise UserError(f"{folder / 'task.toml'} is of schema {version}; versions 1.x are read")
    environment = config.get("environment", {})
    wanted = {
        "a network": environment.get("network_mode") in ("public", "allowlist") or environment.get("allow_internet") is True,
        "GPUs": bool(environment.get("gpus")),
        "Windows": environment.get("os", "linux") != "linux",
        "MCP servers": bool(environment.get("mcp_servers")),
        "several steps": bool(config.get("steps")),
        "a separate verifier image": config.get("verifier", {}).get("environment_mode") == "separate",
    }
    if missing := [what for what, is_wanted in wanted.items() if is_wanted]:
        raise UserError(f"{folder} asks for {', '.join(missing)}, which ninefold's sandbox does not have")
    return config


def _stored(entries: Sequence[Entry]) -> dict[str, list[Any]]:
    return {entry.path: [entry.mode, base64.b64encode(entry.data).decode()] for entry in entries}

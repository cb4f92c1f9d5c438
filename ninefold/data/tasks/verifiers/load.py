"""Tasks of a taskset of verifiers, for the family `verifiers` to play."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ninefold.agent.env.verifiers.family import guest
from ninefold.core.errors import UserError
from ninefold.core.seeds import split_of
from ninefold.core.types import Limits, Split, Task

LIMITS = Limits(turns=50, new_tokens=32_768, context=65_536)


def import_taskset(taskset: str, options: Mapping[str, Any] | None = None, *, most: int = 100) -> list[Task]:
    """The first `most` tasks. Raises UserError at what of the taskset cannot be had, SandboxUnavailable without verifiers."""
    told = guest().ask("tasks", taskset=taskset, options=dict(options or {}), most=most)
    return [_task(taskset, dict(options or {}), given) for given in told]


def _task(taskset: str, options: Mapping[str, Any], given: Mapping[str, Any]) -> Task:
    data = given["data"]
    content = hashlib.sha256(json.dumps([taskset, data], sort_keys=True).encode()).hexdigest()
    return Task(
        id=f"verifiers/{taskset}/{given['key'][:12]}",
        domain="agents",
        family="verifiers",
        split=_split(content),
        level=0,
        seed=int(content[:8], 16),
        shape=f"verifiers/{taskset}",
        instruction=_instruction(taskset, data),
        tools=tuple(tool["name"] for tool in given["tools"]),
        data={"taskset": taskset, "options": options, "task": data, "tools": given["tools"]},
        limits=LIMITS,
        provenance=f"verifiers {taskset} sha256:{content}",
    )


def _split(content: str) -> Split:
    """By content; documents are not made of these, so that what would be theirs is to learn from."""
    split = split_of(content)
    return "train" if split == "corpus" else split


def _instruction(taskset: str, data: Mapping[str, Any]) -> str:
    """System prompt and prompt. Raises UserError where it is more than one text."""
    prompt = data["prompt"]
    if not isinstance(prompt, str):
        texts = [message["content"] for message in prompt if message.get("role") == "user"]
        if len(texts) != len(prompt) or not all(isinstance(text, str) for text in texts):
            raise UserError(f"prompts of {taskset} hold more than a user's text")
        prompt = "\n\n".join(texts)
    return "\n\n".join(part for part in (data.get("system_prompt"), prompt) if part)

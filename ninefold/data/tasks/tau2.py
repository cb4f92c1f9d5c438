"""Tasks out of a checkout of tau2-bench; nothing of it is kept here but what its tasks say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ninefold.agent.env.declared import record_of, tool_of
from ninefold.agent.env.tau2.checkout import check_domain, guest
from ninefold.core.types import Limits, Task

LIMITS = Limits(turns=100, new_tokens=32_768, context=131_072)
BASIS = ("DB", "COMMUNICATE")
"""tau2's own where a task states none."""


def import_domain(domain: str, most: int | None = None) -> tuple[list[Task], list[str]]:
    """(its first tasks, or all; what was left out and why).

    Raises UserError where there is no such domain, SandboxUnavailable without tau2.
    """
    check_domain(domain)
    told = guest().ask("tasks", domain=domain, most=most)
    tools = [record_of(tool_of(t["name"], t.get("description", ""), t["parameters"])) for t in told["tools"]]
    tasks: list[Task] = []
    left_out: list[str] = []
    for given in told["tasks"]:
        criteria = given["task"].get("evaluation_criteria") or {}
        basis = criteria.get("reward_basis") or BASIS
        if not criteria:
            left_out.append(f"{given['task']['id']}: it states no criteria")
        elif "NL_ASSERTION" in basis and criteria.get("nl_assertions"):
            left_out.append(f"{given['task']['id']}: a part of its reward is judged by a model")
        elif "ENV_ASSERTION" in basis and not given["gold"]["holds"]:
            left_out.append(f"{given['task']['id']}: its reference actions do not meet its own assertions")
        else:
            tasks.append(_task(domain, told["policy"], tools, given, basis))
    return tasks, left_out


def _task(domain: str, policy: str, tools: list[dict[str, Any]], given: Mapping[str, Any], basis: Any) -> Task:
    task, criteria = given["task"], given["task"]["evaluation_criteria"]
    content = hashlib.sha256(json.dumps([domain, policy, task], sort_keys=True).encode()).hexdigest()
    return Task(
        id=f"tau2/{domain}/{task['id']}",
        domain="agents",
        family="tau2",
        split="train" if "train" in given["splits"] else "heldout",
        level=0,
        seed=int(content[:8], 16),
        shape=f"tau2/{domain}",
        instruction=f"{policy.strip()}\n\n{_case(task)}",
        tools=tuple(tool["name"] for tool in tools),
        data={
            "domain": domain,
            "task": task,
            "tools": tools,
            "gold": given["gold"],
            "basis": list(basis),
            "actions": criteria.get("actions") or [],
            "communicate": criteria.get("communicate_info") or [],
        },
        limits=LIMITS,
        provenance=f"tau2-bench {domain} sha256:{content}",
    )


def _case(task: Mapping[str, Any]) -> str:
    """What was said before, and what the customer wants: the ticket, or all that the simulated user would be told."""
    history = (task.get("initial_state") or {}).get("message_history") or []
    before = [f"{message['role']}: {message['content']}" for message in history if message.get("content")]
    said = task.get("ticket") or (task.get("user_scenario") or {}).get("instructions")
    if isinstance(said, Mapping):
        said = "\n".join(f"{name.replace('_', ' ')}: {text}" for name, text in said.items() if text and name != "domain")
    asked = ["# The case", str(said or ""), "Do what the case asks for, as far as the policy allows, then tell the customer."]
    return "\n\n".join([*(["# What was said before", "\n".join(before)] if before else []), *asked])

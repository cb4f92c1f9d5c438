"""Runs in tau2's interpreter, with the checkout as its argument, and answers `core.guest`.

It imports the domains alone: the package's own first module would bring its model clients, which nothing here asks.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from ninefold.core.errors import NinefoldError, UserError, boundary
from ninefold.core.guest import serve


class Host:
    """Environments of tau2's by number."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[Any, Any]] = {}
        """(environment, task) of each session."""
        self._calls: list[list[Any]] = []

    def tasks(self, domain: str, most: int | None) -> dict[str, Any]:
        """The first tasks of the domain, or all, with what their reference actions make of the databases."""
        module = _domain(domain)
        splits = module.get_tasks_split() if hasattr(module, "get_tasks_split") else {}
        environment = module.get_environment()
        tools = environment.get_tools() + (environment.get_user_tools() if environment.user_tools is not None else [])
        told = [
            {
                "task": json.loads(task.model_dump_json()),
                "splits": [name for name, ids in splits.items() if task.id in ids],
                "gold": _gold(domain, task),
            }
            for task in module.get_tasks(None)[:most]
        ]
        return {"policy": environment.get_policy(), "tools": [t.openai_schema["function"] for t in tools], "tasks": told}

    def open(self, domain: str, task: Mapping[str, Any]) -> int:
        """The number of a session on the task."""
        read = _read("tasks", "Task", task)
        session = len(self._calls)
        self._open[session] = _prepared(domain, read), read
        self._calls.append([])
        return session

    def call(self, session: int, tool: str, arguments: Mapping[str, Any]) -> str:
        """What the tool answers; a tool of the customer's is called as the customer."""
        environment, _ = self._open[session]
        user = environment.user_tools is not None and environment.user_tools.has_tool(tool)
        asked = {"id": "0", "name": tool, "arguments": arguments, "requestor": "user" if user else "assistant"}
        call = _read("message", "ToolCall", asked)
        self._calls[session].append(call)
        return environment.get_response(call).content

    def state(self, session: int) -> dict[str, Any]:
        """Hashes of the databases, and which of the task's assertions and actions are met."""
        environment, task = self._open[session]
        actions = (task.evaluation_criteria and task.evaluation_criteria.actions) or []
        met = [any(action.compare_with_tool_call(call) for call in self._calls[session]) for action in actions]
        return {**_hashes(environment), "assertions": _assertions(environment, task), "actions": met}

    def close(self, session: int) -> None:
        """Forget the session."""
        self._open.pop(session, None)


def _domain(name: str) -> ModuleType:
    return import_module(f"tau2.domains.{name}.environment")


def _read(module: str, name: str, record: Mapping[str, Any]) -> Any:
    return getattr(import_module(f"tau2.data_model.{module}"), name).model_validate(record)


def _prepared(domain: str, task: Any) -> Any:
    """The domain's environment in the task's initial state."""
    environment, initial = _domain(domain).get_environment(), task.initial_state
    environment.set_state(
        initialization_data=initial and initial.initialization_data,
        initialization_actions=initial and initial.initialization_actions,
        message_history=(initial and initial.message_history) or [],
    )
    return environment


def _gold(domain: str, task: Any) -> dict[str, Any]:
    """What the reference actions come to, as tau2's evaluator replays them: one that fails is passed over."""
    environment = _prepared(domain, task)
    before = _hashes(environment)
    failed: list[NinefoldError] = []
    for action in (task.evaluation_criteria and task.evaluation_criteria.actions) or []:
        with boundary(UserError, action.name, catch=failed.append):
            environment.make_tool_call(action.name, requestor=action.requestor, **action.arguments)
    after = _hashes(environment)
    return {**after, "changes": before != after, "holds": all(_assertions(environment, task))}


def _hashes(environment: Any) -> dict[str, Any]:
    return {"agent": environment.get_db_hash(), "user": environment.get_user_db_hash()}


def _assertions(environment: Any, task: Any) -> list[bool]:
    """Which of them hold; one that raises, as where what it asks about is not there, does not."""
    told: list[bool] = []
    for assertion in (task.evaluation_criteria and task.evaluation_criteria.env_assertions) or []:
        held, broken = False, list[NinefoldError]()
        with boundary(UserError, "an assertion", catch=broken.append):
            held = environment.run_env_assertion(assertion, raise_assertion_error=False)
        told.append(held and not broken)
    return told


def main(checkout: str) -> None:
    """Answer questions on the checkout."""
    package = ModuleType("tau2")
    package.__path__ = [str(Path(checkout, "src", "tau2"))]
    sys.modules["tau2"] = package
    serve(Host())


if __name__ == "__main__":
    main(sys.argv[1])

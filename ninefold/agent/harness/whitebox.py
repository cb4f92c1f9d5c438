"""A white-box harness: toolset, prompt, context and rules as data, which together are its composition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ninefold.agent.harness.compaction import Compaction
from ninefold.agent.harness.delegation import Delegation
from ninefold.agent.harness.rules import Rules
from ninefold.agent.harness.sections import Section, Sections
from ninefold.agent.harness.tools import BAD_ARGUMENTS, NO_SUCH_TOOL, ToolInterface, around, written
from ninefold.agent.harness.view import Toolset
from ninefold.core.config import faults
from ninefold.core.errors import UserError
from ninefold.core.protocols import Message, Move, Observation, ParsedMessage, Tool
from ninefold.core.types import Call, Task, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class WhiteBox:
    """A harness made of modules of public ones (implements `core.protocols.Harness`)."""

    name: str
    version: str
    """Of the harness whose facts it states, or the names of those that it is composed of."""
    toolset: Toolset
    prompt: Sections
    context: Compaction = field(default_factory=Compaction)
    rules: Rules = field(default_factory=Rules)

    @property
    def patience(self) -> int:
        return self.rules.format_errors

    @property
    def once(self) -> bool:
        return self.rules.once

    @property
    def delegation(self) -> Delegation:
        return self.toolset.delegation

    @property
    def composition(self) -> Mapping[str, Any]:
        """JSON that `compose` turns into this harness again; what has its default is left out."""
        return _composition(self)

    def messages(self, task: Task) -> list[Message]:
        return self.prompt.messages(task, [view.name for view in self.toolset.shown(task.tools)])

    def schemas(self, tools: Sequence[Tool]) -> list[dict[str, Any]]:
        return self.toolset.schemas(tools)

    def to_wire(self, move: Move, tools: Sequence[Tool]) -> Message:
        return written(move, [self.toolset.to_wire(call, tools) for call in move.calls])

    def to_world(self, call: Call, tools: Sequence[Tool]) -> Call:
        return self.toolset.to_world(call, tools)

    def observation(self, call: Call, observation: Observation, tools: Sequence[Tool]) -> str:
        return self.toolset.show(call, observation, tools)

    def reminder(self, turns: Sequence[Turn]) -> str:
        ladder = self.rules.ladder
        return ladder.reminder(ladder.repeats(turns)) if ladder else ""

    def stuck(self, turns: Sequence[Turn]) -> bool:
        ladder = self.rules.ladder
        return bool(ladder and ladder.stop and ladder.repeats(turns) >= ladder.stop)

    def refusal(self, message: ParsedMessage, errors: Sequence[str | None]) -> str:
        return self.rules.error(message, errors)

    def submission(self, observation: Observation) -> str | None:
        return self.rules.submission(observation)

    def finished(self, message: ParsedMessage, turns: int) -> bool:
        return self.rules.finished(message, turns)

    def phrases(self, tools: Sequence[Tool]) -> list[str]:
        """Every fixed phrase of prompt and declarations, for a small tokenizer to know as one token."""
        schemas = self.schemas(tools)
        functions = [schema["function"] for schema in schemas]
        names = [name for f in functions for name in (f["name"], *f["parameters"]["properties"])]
        return [*names, *around(schemas, names), *self.prompt.phrases(), f"error: {NO_SUCH_TOOL}", f"error: {BAD_ARGUMENTS}: "]


def nano(harness: WhiteBox, identity: str) -> WhiteBox:
    """The same for a small context: at most four tools, names and required parameters alone, a prompt of one sentence."""
    return replace(
        harness,
        name=f"{harness.name}/nano",
        toolset=replace(harness.toolset, most=4, described=False, optional=False, others=ToolInterface()),
        prompt=Sections(sections=(Section(name="identity", text=identity),)),
    )


_ADAPTER = TypeAdapter(WhiteBox)


@lru_cache(maxsize=256)
def _composition(harness: WhiteBox) -> Mapping[str, Any]:
    """Asked for by every trajectory, and the same for a whole run."""
    return _ADAPTER.dump_python(harness, mode="json", exclude_defaults=True)


def whitebox(composition: Mapping[str, Any]) -> WhiteBox:
    """The harness of a composition. Raises UserError naming what is not understood."""
    try:
        harness = _ADAPTER.validate_python(composition)
    except ValidationError as error:
        raise UserError(f"a white-box composition has toolset, prompt, context and rules; {faults(error)}") from None
    if unknown := _unknown(composition, harness):
        raise UserError(f"this version does not know {unknown!r} of a harness composition; update ninefold")
    return harness


def _unknown(given: Any, made: Any) -> str:
    """The first key of `given` that `made` of it has no place for; empty where there is none."""
    if isinstance(given, Mapping):
        for key, value in given.items():
            if is_dataclass(made) and not hasattr(made, key):
                return str(key)
            if found := _unknown(value, getattr(made, key) if is_dataclass(made) else made[key]):
                return found
    elif isinstance(given, list) and isinstance(made, tuple):
        return next(filter(None, map(_unknown, given, made)), "")
    return ""

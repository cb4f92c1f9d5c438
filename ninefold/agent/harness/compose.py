"""A harness is the composition of its modules; its composition, as JSON, makes it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

from ninefold.agent.harness.context import CLEARED, ContextPolicy
from ninefold.agent.harness.delegation import Delegation
from ninefold.agent.harness.prompt import Prompt
from ninefold.agent.harness.stop import StopRule
from ninefold.agent.harness.tools import BAD_ARGUMENTS, NO_SUCH_TOOL, ToolInterface, written
from ninefold.agent.harness.whitebox import WhiteBox, whitebox
from ninefold.core.errors import UserError
from ninefold.core.protocols import Message, Move, Observation, ParsedMessage, Tool
from ninefold.core.types import Call, Task, Turn

ERROR = "error: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """A harness made of modules (implements `core.protocols.Harness`)."""

    name: str
    interface: ToolInterface = field(default_factory=ToolInterface)
    prompt: Prompt = field(default_factory=Prompt)
    context: ContextPolicy = field(default_factory=ContextPolicy)
    stop: StopRule = field(default_factory=StopRule)

    # No fields: conventions of names have no such rules.
    patience = 0
    once = False
    delegation = Delegation()

    @property
    def composition(self) -> Mapping[str, Any]:
        """JSON that `compose` turns into this harness again."""
        return _composition(self)

    def messages(self, task: Task) -> list[Message]:
        return self.prompt.messages(task)

    def schemas(self, tools: Sequence[Tool]) -> list[dict[str, Any]]:
        return self.interface.schemas(tools)

    def to_wire(self, move: Move, tools: Sequence[Tool]) -> Message:
        return written(move, [self.interface.to_wire(call, tools) for call in move.calls])

    def to_world(self, call: Call, tools: Sequence[Tool]) -> Call:
        return self.interface.to_world(call, tools)

    def observation(self, call: Call, observation: Observation, tools: Sequence[Tool]) -> str:
        return self.interface.observation(observation.text)

    def refusal(self, message: ParsedMessage, errors: Sequence[str | None]) -> str:
        return ""

    def submission(self, observation: Observation) -> str | None:
        return None

    def reminder(self, turns: Sequence[Turn]) -> str:
        return ""

    def stuck(self, turns: Sequence[Turn]) -> bool:
        return False

    def finished(self, message: ParsedMessage, turns: int) -> bool:
        return self.stop.finished(message, turns)

    def phrases(self, tools: Sequence[Tool]) -> list[str]:
        """Every fixed phrase that this harness puts on the wire for `tools`."""
        own = [ERROR + NO_SUCH_TOOL, ERROR + BAD_ARGUMENTS, ERROR, CLEARED]
        return [*self.interface.phrases(tools), *self.prompt.phrases(), *own]


@lru_cache(maxsize=256)
def _composition(harness: Composed) -> Mapping[str, Any]:
    """Asked for by every trajectory, and the same for a whole run."""
    return asdict(harness)


AnyHarness = Composed | WhiteBox


def compose(composition: Mapping[str, Any]) -> AnyHarness:
    """The harness of a composition. Raises UserError naming what is not understood."""
    if "toolset" in composition:
        return whitebox(composition)
    try:
        return Composed(
            name=composition["name"],
            interface=ToolInterface(**composition["interface"]),
            prompt=Prompt(**composition["prompt"]),
            context=ContextPolicy(**composition["context"]),
            stop=StopRule(**composition["stop"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"a harness composition has name, interface, prompt, context and stop with their fields; this one: {error}"
        ) from None

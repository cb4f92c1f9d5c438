"""Compositions to train under."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module

from ninefold.agent.harness.compose import AnyHarness, Composed
from ninefold.agent.harness.context import ContextPolicy
from ninefold.agent.harness.prompt import Prompt
from ninefold.agent.harness.stop import StopRule
from ninefold.agent.harness.tools import ToolInterface
from ninefold.core.errors import UserError
from ninefold.core.protocols import Tool

PLAIN = Composed(name="plain")
VERBAL = Composed(
    name="verbal",
    interface=ToolInterface(naming="verbal", schema="strict", output_limit=2_000),
    prompt=Prompt(system="Use the tools, then answer."),
    context=ContextPolicy(kind="clear"),
    stop=StopRule(turns=48),
)
SERVICE = Composed(
    name="service",
    interface=ToolInterface(naming="service", output_limit=1_000),
    prompt=Prompt(user="Task: {instruction}"),
    context=ContextPolicy(kind="truncate", keep=3),
    stop=StopRule(turns=32),
)

PRESETS: tuple[Composed, ...] = (PLAIN, VERBAL, SERVICE)
"""What is trained under; they differ in names of tools, schemas and prompts."""


PUBLIC: tuple[str, ...] = ("kimi_code", "claude_code", "codex", "openclaw", "hermes", "mini_swe", "pi")
"""Public harnesses, each a module of this package with a FULL harness and a NANO one for small contexts."""


def names() -> list[str]:
    """Every preset."""
    return [*(harness.name for harness in PRESETS), *PUBLIC, *(f"{name}/nano" for name in PUBLIC)]


@cache
def preset(name: str) -> AnyHarness:
    """The preset of that name. Raises UserError naming those that there are."""
    own = {harness.name: harness for harness in PRESETS}
    module, _, size = name.partition("/")
    if name in own:
        return own[name]
    if module in PUBLIC and size in ("", "nano"):
        return getattr(import_module(f"{__name__}.{module}"), "NANO" if size else "FULL")
    raise UserError(f"no harness {name!r}; there are {', '.join(names())}")


def phrases(tools: Sequence[Tool], presets: Sequence[AnyHarness] = PRESETS) -> list[str]:
    """Every fixed phrase that the presets put on the wire for `tools`, each once, in order of first use."""
    return list(dict.fromkeys(phrase for harness in presets for phrase in harness.phrases(tools)))

"""Compositions to train under."""

from __future__ import annotations

from collections.abc import Sequence

from ninefold.agent.harness.compose import Composed
from ninefold.agent.harness.context import ContextPolicy
from ninefold.agent.harness.prompt import Prompt
from ninefold.agent.harness.stop import StopRule
from ninefold.agent.harness.tools import ToolInterface
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


def phrases(tools: Sequence[Tool], presets: Sequence[Composed] = PRESETS) -> list[str]:
    """Every fixed phrase that the presets put on the wire for `tools`, each once, in order of first use."""
    return list(dict.fromkeys(phrase for harness in presets for phrase in harness.phrases(tools)))

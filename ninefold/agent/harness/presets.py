"""Compositions to train under, and others kept aside to measure generalisation to conventions never seen."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

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
"""What is trained under by default."""


def mixtures(presets: Sequence[Composed] = PRESETS) -> tuple[Composed, ...]:
    """Every composition of the presets' modules that is none of the presets; named `interface+prompt+context+stop`."""
    mixed: list[Composed] = []
    for parts in product(presets, repeat=4):
        if len({part.name for part in parts}) == 1:
            continue
        interface, prompt, context, stop = parts
        mixed.append(
            Composed(
                name="+".join(part.name for part in parts),
                interface=interface.interface,
                prompt=prompt.prompt,
                context=context.context,
                stop=stop.stop,
            )
        )
    return tuple(mixed)


def phrases(tools: Sequence[Tool], presets: Sequence[Composed] = PRESETS) -> list[str]:
    """Every fixed phrase that the presets put on the wire for `tools`, each once, in order of first use."""
    return list(dict.fromkeys(phrase for harness in presets for phrase in harness.phrases(tools)))

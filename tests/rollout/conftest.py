"""A scene over two real families, and demonstrated answers to its prompts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ninefold.agent.harness.presets import phrases
from ninefold.chat.tokenizer import Tokenizer
from ninefold.chat.xtml import Xtml, wire_phrases
from ninefold.core.protocols import Request, ScriptedPolicy, Style
from ninefold.core.types import IntArray, Slot
from ninefold.rollout.demonstrate import demonstrate, replay
from ninefold.rollout.play import lineup
from ninefold.rollout.scene import Scene
from tests.rollout.ticking import FAMILIES, prompt, verify


@pytest.fixture(scope="session")
def scene() -> Scene:
    fixed = [
        *wire_phrases(),
        *(p for family in FAMILIES.values() for p in family.phrases()),
        *phrases(FAMILIES["assistant"].tools[:2]),
    ]
    chat = Xtml(Tokenizer.train(["1+2=3,3+4=7 hello low lower"] * 4, fixed, 700))
    return Scene(chat=chat, families=FAMILIES, verify=verify)


@pytest.fixture(scope="session")
def respond(scene: Scene) -> Callable[[Request], IntArray]:
    """Answers for the first 48 prompts with up to 4 samples, as demonstrators of all styles give them."""
    slots = lineup([prompt(n) for n in range(48)], samples=4, seed=7, name="g")

    def policy(slot: Slot) -> ScriptedPolicy:
        return FAMILIES[slot.task.family].demonstrate(slot.task, Style(effort=slot.effort, seed=slot.seed, slip=0.3))

    return replay(demonstrate(slots, policy, scene))

"""A chat format with a small tokenizer that merges across what were boundaries, and scripted assistants."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ninefold.agent.env import family
from ninefold.agent.harness.presets import phrases
from ninefold.chat.tokenizer import Tokenizer
from ninefold.chat.xtml import Xtml, wire_phrases
from ninefold.core.errors import SandboxUnavailable
from ninefold.core.protocols import Family
from ninefold.sandbox.namespace import NamespaceRuntime


@pytest.fixture(scope="session")
def assistant() -> Family:
    return family("assistant")


@pytest.fixture(scope="session")
def namespaces() -> Iterator[NamespaceRuntime]:
    runtime = NamespaceRuntime()
    try:
        runtime.check()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    yield runtime
    runtime.close()


@pytest.fixture(scope="session")
def chat(assistant: Family) -> Xtml:
    texts = ["Ann Bob Cat Dan Eve error: busy hello hello hell low lower"] * 4
    fixed = [*wire_phrases(), *assistant.phrases(), *phrases(assistant.tools[:2])]
    return Xtml(Tokenizer.train(texts, fixed, 640))

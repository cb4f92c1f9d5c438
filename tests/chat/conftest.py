"""Tokenizers of the kind that the small models use."""

from __future__ import annotations

import pytest

from ninefold.chat.tokenizer import Tokenizer
from ninefold.chat.xtml import Xtml, wire_phrases

CORPUS = [
    "Hello, how are you? The weather in Paris is fine: 18 degrees and clear.",
    "def add(a, b):\n    return a + b\n\nprint(add(1, 23))",
    'She said "hello" to the old man; the call went through.',
    "3+4=7, 7+9=6, so the answer is 6.",
    "search for the mail of Anna about the meeting on Monday",
    "he hello help held shell llo low lower message response thinking",
] * 40


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(CORPUS, wire_phrases(), 512)


@pytest.fixture(scope="session")
def xtml(tokenizer: Tokenizer) -> Xtml:
    return Xtml(tokenizer)

"""Drawing content that belongs to a split."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random
from typing import TypeVar

from ninefold.core.seeds import rng_of, split_of
from ninefold.core.types import Split

Content = TypeVar("Content")


def draw(
    make: Callable[[Random], Content], key: Callable[[Content], str], *, split: Split, names: tuple[object, ...]
) -> Content:
    """The first content of the stream seeded by `names` whose key falls into `split`.

    `key` must name the content alone, not its wording, so that nothing is asked in two splits.
    """
    for attempt in count():
        content = make(rng_of(*names, split, attempt))
        if split_of(key(content)) == split:
            return content
    raise AssertionError("count() does not end")

"""A small library whose definitions form a graph, and a program that grows it."""

from __future__ import annotations

import sys
from pathlib import Path

from ninefold.core.seeds import rng_of
from ninefold.data.synth.graph import Graph
from ninefold.data.synth.grow import Field, Growth, grow
from ninefold.data.synth.library import Library
from ninefold.data.synth.propose import Rules
from ninefold.index import Document

NAMES = [
    f"{a}{b}" for a in ("bal", "cor", "dim", "fen", "gol", "hur", "jav", "kel") for b in ("bo", "ca", "di", "fu", "go", "hy")
]
GROWTH = Growth(fields={"words": Field(seeds=tuple(NAMES[:2]))}, nodes=1000)


def library() -> Library:
    """A document for each name but the seeds, which says what it is a kind of; some say so of two, some of a later one."""
    rng = rng_of("plants")
    documents = []
    for i, name in enumerate(NAMES[2:], 2):
        kinds = [NAMES[rng.randrange(i)], NAMES[rng.randrange(len(NAMES))]]
        text = "\n\n".join(f"A {name} is a {kind} with {rng.choice(NAMES[:9])} of size {i}." for kind in kinds)
        documents.append(Document(id=f"doc://plants/1/{name}.txt", title=name, text=text))
    return Library.of(documents)


if __name__ == "__main__":
    grow(Graph(Path(sys.argv[1])), library(), Rules(), GROWTH, lambda known: print(known, flush=True))

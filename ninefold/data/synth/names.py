"""When two names are one: normal forms, and vectors of hashed character n-grams."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from zlib import crc32

import numpy as np

from ninefold.core.types import FloatArray

DIMENSIONS = 512
"""Of a name's vector. [ours]"""
_NGRAMS = (2, 3, 4)

_FUNCTION_WORDS = """
a an the of in on at to for from by with within without and or as is are was were be been being its it this that these
those which who whom whose what when where how than then there if into onto over under between any some each every all
both not no nor only such other another same own can could may might must shall should will would do does did has have
had use used using given where via per beside near along against about around among through during before after above
below behind upon like off out up down because while although as so either neither
"""
STOP = frozenset(_FUNCTION_WORDS.split())
"""Words that are part of no concept's name."""


@lru_cache(maxsize=100_000)
def key_of(name: str) -> str:
    """The form in which names are compared: one case, no accents and determiners, words apart, the last one singular.

    A dotted name of a program keeps its dots and its case.
    """
    name = unicodedata.normalize("NFKC", name).strip()
    if re.fullmatch(r"[A-Za-z_]\w*(\.\w+)+", name):
        return name
    text = "".join(c for c in unicodedata.normalize("NFKD", name.casefold()) if not unicodedata.combining(c))
    words = re.sub(r"[-_/\s]+", " ", text).strip(" .,;:'\"").split(" ")
    while len(words) > 1 and words[0] in {"a", "an", "the"}:
        words = words[1:]
    return " ".join([*words[:-1], singular(words[-1])])


_IRREGULAR = {"matrices": "matrix", "vertices": "vertex", "indices": "index", "axes": "axis"} | {
    word: word for word in ("series", "species")
}


def singular(word: str) -> str:
    """An English noun in the singular, as far as rules go; what they get wrong they get wrong alike for every use."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) < 4 or word.endswith(("ss", "us", "is", "ics")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "sses", "xes", "zes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") else word


def words_of(text: str) -> frozenset[str]:
    """Content words of a text, singular."""
    return frozenset(singular(word) for word in re.findall(r"[a-z]+|\d+", text.casefold()) if word not in STOP)


@lru_cache(maxsize=100_000)
def vector(name: str) -> FloatArray:
    """[DIMENSIONS] of length 1: signed hashes of the name's character n-grams; near for names spelled alike."""
    text = f" {key_of(name)} "
    x_D = np.zeros(DIMENSIONS, np.float32)
    for n in _NGRAMS:
        for i in range(len(text) - n + 1):
            hashed = crc32(text[i : i + n].encode())
            x_D[hashed % DIMENSIONS] += 1.0 if hashed & (1 << 20) else -1.0
    return x_D / max(float(np.linalg.norm(x_D)), 1e-9)


class Known:
    """Names of nodes, to be looked up by their words and by the nearness of their vectors."""

    def __init__(self) -> None:
        self._nodes: list[int] = []
        self._x_ND = np.zeros((1024, DIMENSIONS), np.float32)
        self._words: dict[frozenset[str], int] = {}

    @property
    def last(self) -> int:
        """The newest node known; 0 where there is none."""
        return self._nodes[-1] if self._nodes else 0

    def add(self, name: str, node: int) -> None:
        """Nodes come in order."""
        assert node > self.last
        if len(self._nodes) == len(self._x_ND):
            self._x_ND = np.concatenate([self._x_ND, np.zeros_like(self._x_ND)])
        self._x_ND[len(self._nodes)] = vector(name)
        self._nodes.append(node)
        self._words.setdefault(words_of(name), node)

    def like(self, name: str, k: int) -> list[int]:
        """Nodes that may be the same: first one of the same words in any order, then the `k` nearest by cosine."""
        same = self._words.get(words_of(name)) if len(words_of(name)) > 1 else None
        cosines_N = self._x_ND[: len(self._nodes)] @ vector(name)
        nearest = sorted(np.argsort(-cosines_N, kind="stable")[:k].tolist(), key=lambda i: (-cosines_N[i], i))
        return list(dict.fromkeys([*([same] if same else []), *(self._nodes[i] for i in nearest)]))

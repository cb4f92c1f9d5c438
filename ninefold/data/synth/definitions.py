"""Definitions in documents, found by rules: what is defined, and which coarser concepts the definition names. [ours]

A definition is a genus with differences ("a bipartite graph is a graph whose …"), so its genus is coarser than what it
defines; so are the head of a compound ("graph" of "bipartite graph"), the module of a function, and what the first sentence
of a function's documentation says that it is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ninefold.data.synth.names import STOP, key_of
from ninefold.index import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What a document says that something is."""

    names: tuple[str, ...]
    """The first is the usual one."""
    start: int
    """Offset of the sentence in the document's text."""
    end: int
    coarser: frozenset[str]
    """Keys of the concepts that it is a kind, a part or an instance of."""


_DOTTED = re.compile(r"[A-Za-z_]\w*(\.\w+)*")
_WORD = r"[A-Za-z][A-Za-z-]*"
_GLOSS = re.compile(r"^([^():\n]+) \(noun\): ((?:\([^)]*\) ?)?)([^;\n]+)", re.MULTILINE)
_SENTENCE = re.compile(
    rf"(?:(?<=[.!?]\s)|(?<=\n\n)|\A)(?:An?|The|Every|Each)\s+((?:{_WORD}[ \n]){{0,3}}{_WORD})\s+(?:is|are)\s+"
    rf"(?:an?|the|any|one of the)\s+([^.;\n]+(?:\n[^.;\n]+)?)"
)
_PARTITIVE = re.compile(
    r"(?:branch|kind|type|form|genus|family|member|group|class|part|unit|species|variety|section|set|field|division|any|one)s? "
    r"(?:of|in) (?:various |several |numerous |the |a |an |or )*"
)
_DETERMINED = re.compile(rf"\b(?:an?|the|each|every|of|all|for|from|between)\s+((?:{_WORD}\s+){{0,4}}{_WORD})", re.IGNORECASE)
_BREAK = re.compile(r"[,;:()\[\]\"'`.]|\s(?:used|born|found|made|having|based|caused|containing|consisting|characterized)\b")
_PLACEHOLDERS = """
function method class object value argument parameter result output input default note example following module result
thing something type first second last return returns one two three main usual above below current given
"""
_UNNAMED = STOP | frozenset(_PLACEHOLDERS.split())
"""Words that alone name no concept."""


def definitions(document: Document) -> Iterator[Definition]:
    """Every definition of the document, in order."""
    if document.id.startswith("doc://wordnet/"):
        yield from _glosses(document)
    elif _DOTTED.fullmatch(document.title) and document.id.endswith(f"/{document.title}"):
        yield _interface(document)
    for found in _SENTENCE.finditer(document.text):
        name = " ".join(found[1].split())
        if key_of(name) not in _UNNAMED and not _UNNAMED & {name.split()[0].casefold()}:
            yield Definition(names=(name,), start=found.start(), end=found.end(), coarser=_above(name, found[2]))


def _glosses(document: Document) -> Iterator[Definition]:
    for found in _GLOSS.finditer(document.text):
        names = tuple(name.strip() for name in found[1].split(","))
        field = {key_of(found[2].strip("() "))} if found[2] else set()
        yield Definition(names=names, start=found.start(), end=found.end(), coarser=_above(names[0], found[3]) | field)


def _interface(document: Document) -> Definition:
    """A module, class or function: a part of what contains it, about what its first sentence names."""
    first = re.match(r"\s*(.+?)(?:\.\s|\.?\n\s*\n|\.?\Z)", document.text, re.DOTALL)
    start, end = first.span(1) if first else (0, len(document.text))
    package = document.id.split("/")[2]
    above = {document.title.rpartition(".")[0] or package}
    for subject in _DETERMINED.finditer(" ".join(document.text[start:end].split())):
        above |= set(_heads(_run(subject[1])))
    return Definition(names=(document.title,), start=start, end=end, coarser=frozenset(above - {document.title}))


def _above(name: str, gloss: str) -> frozenset[str]:
    """The genus that a gloss begins with, and the heads of a compound name."""
    gloss = re.sub(r"^(?:\(.*?\) ?)?(?:(?:an?|the|any) )?", "", " ".join(gloss.split()))
    partitive = _PARTITIVE.match(gloss)
    above = set(_heads(_run(gloss[partitive.end() :] if partitive else gloss)))
    if name == name.casefold():
        above |= set(_heads(name.split(" "))[1:] if " " in name else ())
    return frozenset(above - {key_of(name)})


def _run(text: str) -> list[str]:
    """The words up to the first that cannot belong to one noun phrase."""
    words: list[str] = []
    for word in _BREAK.split(text, maxsplit=1)[0].split():
        if word.casefold() in STOP or not re.fullmatch(_WORD, word) or len(words) == 5:
            break
        words.append(word)
    return words


def _heads(words: list[str]) -> list[str]:
    """A noun phrase and what is left of it as words are dropped from the front, the longest first."""
    keys = [key_of(" ".join(words[i:])) for i in range(len(words))]
    return [key for key in keys if key and key not in _UNNAMED]

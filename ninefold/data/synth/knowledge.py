"""Knowledge tasks by rules: which concepts do the documents define so? One name for each node of the set. [ours]"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from ninefold.data.synth.checks.knowledge import normal
from ninefold.data.synth.definitions import definitions
from ninefold.data.synth.draft import Draft
from ninefold.data.synth.graph import Graph, Node
from ninefold.data.synth.names import words_of
from ninefold.data.synth.target import Cell
from ninefold.index import Document

BLANK = "____"
FEWEST = 4
"""Different words of a quote that is asked about."""
_ORDER = ("first", "second")
"""A set has two at most."""


def knowledge(cell: Cell, nodes: Sequence[Node], graph: Graph, documents: tuple[Document, ...]) -> Draft | str:
    """A draft, or why there is none."""
    quotes = [blanked(node, nodes) for node in nodes]
    if not all(map(telling, quotes)):
        return "a definition says too little"
    answer = [accepted(node, documents) for node in nodes]
    sources = sorted({evidence.url for node in nodes for evidence in node.evidence})
    gold = {"answer": [node.name for node in nodes], "sources": sources}
    return Draft(
        cell=cell,
        nodes=tuple(node.name for node in nodes),
        instruction=_instruction(cell, quotes),
        quotes=tuple(quotes),
        hidden=tuple(name for names in answer for name in names),
        file="answer.json",
        gold=json.dumps(gold, ensure_ascii=False),
        expected={"answer": answer, "sources": sources},
        evidence=tuple(evidence for node in nodes for evidence in node.evidence),
        documents=documents,
        guesses=tuple(guesses(cell, quotes, sources, len(quotes))),
        mutants=tuple(_mutants(gold, graph, nodes)),
    )


def blanked(node: Node, nodes: Sequence[Node]) -> str:
    """The definition of `node` without the names of `nodes`."""
    text = re.sub(r"^[^():]+ \(noun\): ", "", node.definition)
    full = {name for other in nodes for name in (other.name, *other.aliases)}
    names = full | {name.rpartition(".")[2] for name in full}
    low = text.casefold()
    for name in sorted((name for name in names if name.casefold() in low), key=lambda name: (-len(name), name)):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?:s|es)?(?!\w)", BLANK, text, flags=re.IGNORECASE)
    return text


def accepted(node: Node, documents: Sequence[Document]) -> list[str]:
    """Names that answer for a node: its own, all that its text gives in the same place, and what "of" leads away from."""
    spans = {(evidence.url, evidence.start) for evidence in node.evidence}
    found = [one.names for d in documents for one in definitions(d) if (d.id, one.start) in spans]
    names = [node.name, *node.aliases, *(name for names in found for name in names)]
    return list(dict.fromkeys([*names, *(name.partition(" of ")[0] for name in names)]))


def telling(quote: str) -> bool:
    """Whether there is enough in a quote to know a thing by."""
    return len(words_of(quote)) >= FEWEST


def gives_away(quote: str, name: str) -> bool:
    """Whether a name, or its last part, stands in a quote, however it is written."""
    return squashed(name.rpartition(".")[2]) in squashed(quote)


def squashed(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.casefold())


def askable(node: Node) -> bool:
    """Whether its definition tells enough of it, and not its name."""
    quote = blanked(node, [node])
    return telling(quote) and not any(gives_away(quote, name) for name in (node.name, *node.aliases))


def _instruction(cell: Cell, quotes: Sequence[str]) -> str:
    lines = "\n".join(f'- the {_ORDER[i]}: "{quote}"' for i, quote in enumerate(quotes))
    what = "What is defined or documented there" if len(quotes) == 1 else "Which two things are defined or documented there"
    blanks = f"({BLANK} stands for a name that is asked for.) " if any(BLANK in quote for quote in quotes) else ""
    return (
        f"The folder documents/ holds texts on {cell.domain}; the first line of each is its address, the second its title.\n"
        f"{what} in these words?\n\n{lines}\n\n{blanks}Write answer.json with the full names as the documents give them, in "
        'this order, and the addresses of the documents that say so: {"answer": ["…"], "sources": ["doc://…"]}\n'
    )


def guesses(cell: Cell, quotes: Sequence[str], sources: Sequence[str], names: int) -> list[str]:
    """Closed book: every run of up to four words of the quotes in each of the `names` places, told the sources besides."""
    runs = [cell.domain, ""]
    for quote in quotes:
        words = re.findall(r"[\w.-]+", quote)
        runs += [" ".join(words[i : i + n]) for n in range(1, 5) for i in range(len(words) - n + 1)]
    return [json.dumps({"answer": [run] * names, "sources": list(sources)}) for run in dict.fromkeys(map(normal, runs))]


def _mutants(gold: dict[str, list[str]], graph: Graph, nodes: Sequence[Node]) -> list[str]:
    """A name left out, doubled, cut, swapped for that of a sibling or of the coarser concept; sources left out or all cited."""
    names, sources = gold["answer"], gold["sources"]
    wrong: list[dict[str, Any]] = [
        {"answer": names[:-1], "sources": sources},
        {"answer": [*names, names[0]], "sources": sources},
        {"answer": [*names[:-1], names[-1][:-1]], "sources": sources},
        {"answer": "; ".join(names), "sources": sources},
        {"answer": names, "sources": sources[:-1]},
        {"answer": names, "sources": [*sources, *(f"doc://other/{i}" for i in range(len(sources) + 1))]},
    ]
    parent = graph.coarser(nodes[-1].id)[0]
    others = [graph.node(id).name for id in (parent, *graph.finer(parent)) if id != nodes[-1].id][:3]
    wrong += [{"answer": [*names[:-1], other], "sources": sources} for other in others]
    if len(names) > 1:
        wrong.append({"answer": names[::-1], "sources": sources})
    return [json.dumps(mutant, ensure_ascii=False) for mutant in wrong]

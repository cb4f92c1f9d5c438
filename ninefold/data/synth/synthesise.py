"""Tasks from a graph: draw a node set for the neediest cell, retrieve, draft, judge; every attempt is kept in a journal."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ninefold.core.config import Config
from ninefold.core.protocols import SandboxRuntime
from ninefold.core.seeds import rng_of
from ninefold.core.store import write_folder
from ninefold.data.corpus.filters import Contamination
from ninefold.data.lines import drop_torn_line, numbered_lines
from ninefold.data.synth.bridge import Bridges, bridge
from ninefold.data.synth.coding import Functions, coding
from ninefold.data.synth.draft import Draft, write
from ninefold.data.synth.fields import Field
from ninefold.data.synth.gates import Gates, Refusal
from ninefold.data.synth.graph import Graph, Node
from ninefold.data.synth.knowledge import askable, knowledge
from ninefold.data.synth.library import Library
from ninefold.data.synth.target import Cell, Sampler, Target, TaskType, neediest
from ninefold.data.synth.weak import Weak, policy_of
from ninefold.index import Document

HITS = 10
"""Documents retrieved for each node and query."""

WORDS = 12
"""Of a definition that are searched for."""


class Synthesis(Config):
    """What is made of a graph."""

    target: Target = Target()
    tasks: int = 300
    seed: int = 0
    weak: Weak = Weak()
    patience: int = 40
    """Attempts in a row without a task after which a cell is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One line of the journal."""

    number: int
    cell: Cell
    nodes: tuple[str, ...]
    task: str | None
    """Folder of the task that it became."""
    gate: str | None
    """Where it was refused."""
    reason: str | None
    weak: float | None = None
    """Share of the weak policy's attempts that passed, where it came to them."""


def synthesise(
    graph: Graph,
    library: Library,
    fields: dict[str, Field],
    folder: Path,
    config: Synthesis,
    runtime: SandboxRuntime,
    contamination: Contamination,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> list[Attempt]:
    """Write Harbor directories into `folder` until there are `config.tasks`, or no cell gives more. Returns the journal.

    Killed and called again it goes on: every attempt is fixed by its number and those before. `progress` is told
    (tasks, attempts).
    """
    folder.mkdir(parents=True, exist_ok=True)
    attempts = read_journal(folder)
    functions = Functions(runtime=runtime, path=folder / "functions.jsonl")
    maker = _Maker(graph, library, fields, config, functions)
    gates = Gates(
        library=library,
        runtime=runtime,
        contamination=contamination,
        weak=policy_of(config.weak),
        attempts=config.weak.attempts,
    )
    for attempt in attempts:
        if attempt.task is not None:
            draft = maker.draft(attempt.cell, attempt.number)
            assert isinstance(draft, Draft), "an attempt is fixed by its number and those before"
            gates.accept(draft)
        maker.tried.add((attempt.cell.type, attempt.nodes))
    empty = maker.empty()
    while True:
        made = Counter(attempt.cell for attempt in attempts if attempt.task)
        cell = neediest(made, config.target, empty | exhausted(attempts, config.patience))
        if made.total() >= config.tasks or cell is None:
            return attempts
        attempts.append(_attempt(maker, gates, cell, len(attempts), folder))
        progress(made.total() + (attempts[-1].task is not None), len(attempts))


def exhausted(attempts: Sequence[Attempt], patience: int) -> set[Cell]:
    """Cells whose last `patience` attempts all failed."""
    failures = Counter[Cell]()
    for attempt in attempts:
        failures[attempt.cell] = 0 if attempt.task else failures[attempt.cell] + 1
    return {cell for cell, count in failures.items() if count >= patience}


def read_journal(folder: Path) -> list[Attempt]:
    path = folder / "journal.jsonl"
    drop_torn_line(path)
    records = [json.loads(line) for _, line in numbered_lines(path)] if path.exists() else []
    return [Attempt(**{**record, "cell": Cell(*record["cell"]), "nodes": tuple(record["nodes"])}) for record in records]


def _attempt(maker: _Maker, gates: Gates, cell: Cell, number: int, folder: Path) -> Attempt:
    """Draft and judge once; a task is on disk before the journal says so."""
    draft = maker.draft(cell, number)
    refusal = Refusal("drafted", draft) if isinstance(draft, str) else gates.refusal(draft)
    nodes, task, weak = (), None, None
    if isinstance(draft, Draft):
        nodes, weak = draft.nodes, gates.rates.get(draft.id)
        if refusal is None:
            task = draft.id
            write_folder(folder / "tasks" / task, lambda new: write(draft, new, weak))
            gates.accept(draft)
    record: dict[str, Any] = {"number": number, "cell": cell, "nodes": nodes, "task": task}
    record |= {"gate": refusal and refusal.gate, "reason": refusal and refusal.reason, "weak": weak}
    maker.tried.add((cell.type, nodes))
    with (folder / "journal.jsonl").open("a") as journal:
        journal.write(json.dumps(record, ensure_ascii=False) + "\n")
    return Attempt(**record)


class _Maker:
    """Drafts, each fixed by cell and number."""

    def __init__(
        self, graph: Graph, library: Library, fields: dict[str, Field], config: Synthesis, functions: Functions
    ) -> None:
        self._graph, self._library, self._fields, self._config = graph, library, fields, config
        self._functions = functions
        self.tried: set[tuple[TaskType, tuple[str, ...]]] = set()
        """Node sets of earlier attempts, which would be judged as before."""
        self._bridges = Bridges(graph=graph, within=self._within)
        self._sampler = Sampler(graph=graph, usable=self._usable, bridges=self._bridges.of)

    def empty(self) -> set[Cell]:
        """Cells that no node is for."""
        return {cell for cell in self._config.target.cells() if not self._sampler.pool(cell)}

    def _usable(self, type: TaskType, node: Node) -> bool:
        return askable(node) and (type == "knowledge" or self._functions.of(node) is not None)

    def draft(self, cell: Cell, number: int) -> Draft | str:
        tried = {nodes for type, nodes in self.tried if type == cell.type}
        nodes = self._sampler.draw(cell, rng_of("synth", self._config.seed, number), tried)
        if not nodes:
            return "no such nodes"
        documents = self._retrieved(cell.domain, nodes)
        if cell.relation == "bridge":
            return bridge(cell, nodes, self._graph, documents)
        if cell.type == "coding":
            return coding(cell, nodes, self._graph, documents, self._functions)
        return knowledge(cell, nodes, self._graph, documents)

    def _within(self, domain: str) -> Library:
        return self._library.within(self._fields[domain].collections)

    def _retrieved(self, domain: str, nodes: Sequence[Node]) -> tuple[Document, ...]:
        """What searches for each node find, by its name, how its definition begins and its ancestors, by address."""
        library = self._within(domain)
        queries: list[str] = []
        for node in nodes:
            above = [self._graph.node(id).name for id in self._graph.lineage(node.id)]
            queries += [node.name, " ".join(node.definition.split()[:WORDS]), " ".join(above[-3:])]
        ids = {hit.id for query in queries for hit in library.index.search(query, HITS)}
        return tuple(library.documents[id] for id in sorted(ids))

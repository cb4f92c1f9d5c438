"""Growing a graph: an agent for each node, many at once; what they propose is settled in the order of the nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Literal

from ninefold.core.config import Config
from ninefold.core.errors import UserError
from ninefold.data.synth.endpoint import Chat, Endpoint
from ninefold.data.synth.fields import FIELDS, Field
from ninefold.data.synth.graph import Concept, Cycle, Graph, Node, owner
from ninefold.data.synth.library import Library, Sources
from ninefold.data.synth.names import Known
from ninefold.data.synth.propose import Local, Proposer, Rules

LIKE = 5
"""Known nodes that a proposed concept is compared with, beside those of equal name."""
WAIT_S = 0.05
"""Between looks at a graph whose next nodes are leased to other processes."""


class Growth(Config):
    """How a graph grows."""

    sources: Sources = Sources()
    proposer: Literal["rules", "endpoint"] = "rules"
    local: Local = Local()
    chat: Chat = Chat()
    fields: dict[str, Field] = dict(FIELDS)
    """By domain."""
    nodes: int = 3000
    """Growth stops at the first node expanded with so many known."""
    workers: int = 1
    """Agents at once; more help where a proposer waits for an endpoint."""
    lease_s: float = 300.0
    """After so many seconds another process may take a node over."""


def proposer_of(config: Growth) -> Proposer:
    return Endpoint(config.chat) if config.proposer == "endpoint" else Rules(config.local)


def plant(graph: Graph, fields: Mapping[str, Field]) -> None:
    """Put in domains and seeds, unless the graph has any node."""
    with graph.transaction():
        if len(graph):
            return
        for domain, field in fields.items():
            root = graph.add(Concept(name=domain), domain=domain, depth=0, provenance="seed")
            for name in field.seeds:
                fine = graph.find(name) or graph.add(Concept(name=name), domain=domain, depth=1, provenance="seed")
                graph.connect(root, fine, provenance="seed")


def grow(
    graph: Graph, library: Library, proposer: Proposer, config: Growth, progress: Callable[[int], None] = lambda _: None
) -> None:
    """Expand nodes until none is left or `config.nodes` are known. Call it again to go on, or at once in other processes.

    `progress` is told how many nodes are known. Raises UserError where the graph grew from other documents.
    """
    check(graph, library, proposer)
    plant(graph, config.fields)
    known = Known()
    running: dict[Future[Sequence[Concept]], int] = {}
    with graph.holding(owner()) as holder, ThreadPoolExecutor(config.workers) as pool:
        while len(graph) < config.nodes and not graph.finished():
            for done in [future for future in running if future.done()]:
                graph.propose(running.pop(done), done.result())
            settled = settle(graph, proposer, known)
            while len(running) < config.workers:
                id = graph.lease(holder, seconds=config.lease_s, ahead=4 * config.workers)
                if id is None:
                    break
                place = graph.place(id)
                part = library.within(config.fields[place.domain].collections)
                running[pool.submit(proposer.propose, place, part)] = id
            if settled:
                progress(len(graph))
            elif running:
                wait(running, return_when=FIRST_COMPLETED)
            else:
                time.sleep(WAIT_S)


def check(graph: Graph, library: Library, proposer: Proposer) -> None:
    """Raise UserError where the graph was begun with other documents or another proposer."""
    for what, value in (("documents", library.digest), ("proposer", proposer.name)):
        first = graph.fact(what, value)
        if first != value:
            raise UserError(
                f"{graph.path} was begun with other {what} ({first[:40]}, not {value[:40]}): give this graph another name"
            )


def settle(graph: Graph, proposer: Proposer, known: Known) -> bool:
    """Take up what was proposed for the first unsettled node; False where nothing was yet."""
    with graph.transaction():
        ready = graph.proposed()
        if ready is None:
            return False
        for id, name in graph.names(after=known.last):
            known.add(name, id)
        id, concepts = ready
        coarse = graph.node(id)
        graph.settle(id, [(concept.name, _decide(graph, coarse, concept, proposer, known)) for concept in concepts])
    return True


def _decide(graph: Graph, coarse: Node, concept: Concept, proposer: Proposer, known: Known) -> str:
    """Reuse an equal node before making one, connect it, and say what was done."""
    provenance = f"{proposer.name} on {coarse.name}"
    fine = _equal(graph, concept, proposer, known)
    decision = "reused"
    if fine is not None:
        graph.learn(fine, concept)
    else:
        decision = "new"
        if graph.find(concept.name) is not None:
            concept = replace(concept, name=f"{concept.name} ({coarse.name})", aliases=())
            if graph.find(concept.name) is not None:
                return "another sense of a name known twice"
        fine = graph.add(concept, domain=coarse.domain, depth=coarse.depth + 1, provenance=provenance)
        known.add(concept.name, fine)
    try:
        return decision if graph.connect(coarse.id, fine, provenance=provenance) else "connected already"
    except Cycle:
        return "cycle refused"


def _equal(graph: Graph, concept: Concept, proposer: Proposer, known: Known) -> int | None:
    """A node that is the concept: by name, by alias, by its words, by the nearness of names."""
    named = [graph.find(name) for name in (concept.name, *concept.aliases)]
    for id in dict.fromkeys(id for id in named if id is not None):
        if proposer.same(concept, graph.node(id)):
            return id
    return next((id for id in known.like(concept.name, LIKE) if proposer.same(concept, graph.node(id))), None)

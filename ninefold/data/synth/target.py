"""What is to be synthesised: shares of domains, granularities, task types and relations, and the node sets drawn for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Literal, NamedTuple

from ninefold.core.config import Config
from ninefold.data.synth.graph import Graph, Node

TaskType = Literal["knowledge", "coding"]
Granularity = Literal["coarse", "fine"]
Relation = Literal["single", "siblings", "chain", "pair", "bridge"]
DRAWS = 20
"""Draws of a node set before there is none."""
FINE = 3
"""Steps from a seed's domain from which a node is fine. [ours]"""


class Cell(NamedTuple):
    """One kind of task to be made."""

    domain: str
    granularity: Granularity
    type: TaskType
    relation: Relation


class Target(Config):
    """Shares wanted along each axis; each axis is normalised."""

    domain: dict[str, float] = {
        "coding": 0.28,
        "mathematics": 0.15,
        "graph theory": 0.1,
        "artificial intelligence": 0.1,
        "physics": 0.08,
        "chemistry": 0.09,
        "biomedicine": 0.1,
        "humanities": 0.1,
    }
    granularity: dict[Granularity, float] = {"coarse": 0.65, "fine": 0.35}
    type: dict[TaskType, float] = {"knowledge": 0.95, "coding": 0.05}
    relation: dict[Relation, float] = {"single": 0.35, "siblings": 0.2, "chain": 0.2, "pair": 0.2, "bridge": 0.05}

    def cells(self) -> list[Cell]:
        return [Cell(*values) for values in product(self.domain, self.granularity, self.type, self.relation)]

    def shares(self) -> dict[str, dict[str, float]]:
        """Axis → value → share; each axis adds up to 1."""
        axes = {axis: dict(getattr(self, axis)) for axis in Cell._fields}
        return {axis: {value: share / sum(wanted.values()) for value, share in wanted.items()} for axis, wanted in axes.items()}


def deviation(made: Mapping[Cell, int], target: Target) -> dict[str, dict[str, float]]:
    """Axis → value → made share less wanted share, in points."""
    total = max(sum(made.values()), 1)
    shares = target.shares()
    counts = {axis: Counter[str]() for axis in shares}
    for cell, count in made.items():
        for axis, value in cell._asdict().items():
            counts[axis][value] += count
    return {
        axis: {value: 100 * (counts[axis][value] / total - share) for value, share in wanted.items()}
        for axis, wanted in shares.items()
    }


def neediest(made: Mapping[Cell, int], target: Target, exhausted: set[Cell]) -> Cell | None:
    """The cell whose values are furthest behind their shares, all axes together; None where all are exhausted."""
    behind = deviation(made, target)
    open_cells = [cell for cell in target.cells() if cell not in exhausted]
    return min(open_cells, key=lambda cell: sum(behind[axis][v] for axis, v in cell._asdict().items()), default=None)


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """Node sets of a graph that is not grown meanwhile."""

    graph: Graph
    usable: Callable[[TaskType, Node], bool]
    """Whether a node can be asked about in a task of the type."""
    bridges: Callable[[Node], Sequence[tuple[Node, Node]]]
    """Pairs of clues that lead to a node."""
    _known: dict[TaskType, dict[int, Node]] = field(default_factory=dict[TaskType, "dict[int, Node]"])
    _pools: dict[Cell, list[Node]] = field(default_factory=dict[Cell, list[Node]])

    def draw(self, cell: Cell, rng: Random, tried: Container[tuple[str, ...]] = ()) -> tuple[Node, ...]:
        """Nodes of the cell's domain, granularity and relation, the coarsest first, whose names were not tried together; ()
        where some draws find none."""
        draws = (self._draw(cell, rng) for _ in range(DRAWS if self.pool(cell) else 0))
        return next((nodes for nodes in draws if nodes and tuple(node.name for node in nodes) not in tried), ())

    def _draw(self, cell: Cell, rng: Random) -> tuple[Node, ...]:
        node = rng.choice(self.pool(cell))
        if cell.relation == "single":
            return (node,)
        sets = self._apart(cell, node, rng) if cell.relation == "pair" else self._beside(cell, node)
        return (*rng.choice(sets), node) if sets else ()

    def pool(self, cell: Cell) -> list[Node]:
        """The nodes that a set of the cell may end in."""
        if cell not in self._pools:
            pool = [node for node in self._of(cell.type).values() if (node.domain, _granularity(node)) == cell[:2]]
            alone = cell.relation in ("single", "pair")
            self._pools[cell] = [node for node in pool if alone or self._beside(cell, node)]
        return self._pools[cell]

    def _of(self, type: TaskType) -> dict[int, Node]:
        """Nodes that tasks of the type can be about, by id."""
        if type not in self._known:
            nodes = [node for node in self.graph.nodes() if node.evidence and self.usable(type, node)]
            self._known[type] = {node.id: node for node in nodes}
        return self._known[type]

    def _beside(self, cell: Cell, node: Node) -> Sequence[tuple[Node, ...]]:
        """What makes a set of the cell with the node: a sibling, a coarser one, or two clues."""
        if cell.relation == "bridge":
            return self.bridges(node) if cell.type == "knowledge" else ()
        if cell.relation == "siblings":
            usable, parent = self._of(cell.type), self.graph.coarser(node.id)[0]
            return [(usable[id],) for id in self.graph.finer(parent) if id in usable and id != node.id]
        documented = self._of("knowledge")  # of the coarser one no program need be known
        return [(documented[id],) for id in self.graph.lineage(node.id)[:-1] if id in documented]

    def _apart(self, cell: Cell, node: Node, rng: Random) -> Sequence[tuple[Node, ...]]:
        """Some nodes with no common ancestor but the domain."""
        above = self.graph.ancestors(node.id) | {node.id}
        pool = [other for other in self._of(cell.type).values() if other.domain == cell.domain]
        few = rng.sample(pool, min(len(pool), 20))
        return [(other,) for other in few if len((self.graph.ancestors(other.id) | {other.id}) & above) <= 1]


def _granularity(node: Node) -> Granularity:
    return "fine" if node.depth >= FINE else "coarse"

"""What is to be synthesised: shares of domains, granularities, task types and relations, and the node sets drawn for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Literal, NamedTuple

from ninefold.core.config import Config
from ninefold.data.synth.graph import Graph, Node

TaskType = Literal["knowledge", "coding"]
Granularity = Literal["coarse", "fine"]
Relation = Literal["single", "siblings", "chain", "pair"]
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
    type: dict[TaskType, float] = {"knowledge": 0.9, "coding": 0.1}
    relation: dict[Relation, float] = {"single": 0.4, "siblings": 0.2, "chain": 0.2, "pair": 0.2}

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
    _known: dict[TaskType, dict[int, Node]] = field(default_factory=dict[TaskType, "dict[int, Node]"])

    def draw(self, cell: Cell, rng: Random) -> tuple[Node, ...]:
        """Nodes of the cell's domain, granularity and relation, the coarsest first; () where the draw finds none."""
        pool = self.pool(cell)
        if not pool:
            return ()
        node = rng.choice(pool)
        if cell.relation == "single":
            return (node,)
        others = {"siblings": self._siblings, "chain": self._above, "pair": self._apart}[cell.relation](cell, node, rng)
        return (rng.choice(others), node) if others else ()

    def pool(self, cell: Cell) -> list[Node]:
        """The nodes that a set of the cell may end in."""
        return [node for node in self._of(cell.type).values() if (node.domain, _granularity(node)) == cell[:2]]

    def _of(self, type: TaskType) -> dict[int, Node]:
        """Nodes that tasks of the type can be about, by id."""
        if type not in self._known:
            nodes = [node for node in self.graph.nodes() if node.evidence and self.usable(type, node)]
            self._known[type] = {node.id: node for node in nodes}
        return self._known[type]

    def _siblings(self, cell: Cell, node: Node, rng: Random) -> list[Node]:
        usable, parent = self._of(cell.type), self.graph.coarser(node.id)[0]
        return [usable[id] for id in self.graph.finer(parent) if id in usable and id != node.id]

    def _above(self, cell: Cell, node: Node, rng: Random) -> list[Node]:
        """Coarser nodes, of which no program need be known."""
        above = self.graph.lineage(node.id)[:-1]
        return [self._of("knowledge")[id] for id in above if id in self._of("knowledge")]

    def _apart(self, cell: Cell, node: Node, rng: Random) -> list[Node]:
        """Some nodes with no common ancestor but the domain."""
        above = self.graph.ancestors(node.id) | {node.id}
        pool = [other for other in self._of(cell.type).values() if other.domain == cell.domain]
        few = rng.sample(pool, min(len(pool), 20))
        return [other for other in few if len((self.graph.ancestors(other.id) | {other.id}) & above) <= 1]


def _granularity(node: Node) -> Granularity:
    return "fine" if node.depth >= FINE else "coarse"

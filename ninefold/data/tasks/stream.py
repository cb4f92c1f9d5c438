"""Endless fresh tasks: the i-th is a function of i, so a cursor is all that a resumed run needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ninefold.agent.env import family
from ninefold.core.errors import UserError
from ninefold.core.seeds import seed_of
from ninefold.core.types import Budget, Split, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStream:
    """Tasks of some families and levels in turn, all of one split."""

    levels: Mapping[str, Sequence[int]]
    """Family → its levels."""
    split: Split
    seed: int
    """Streams of different seeds share no seed of a task."""
    budgets: Mapping[str, Budget] = field(default_factory=dict[str, Budget])
    """Task shape → b₀, attached to each task where measured."""

    def __post_init__(self) -> None:
        for name, levels in self.levels.items():
            known = family(name).levels
            if not levels or not all(0 <= level < known for level in levels):
                raise UserError(f"family {name!r} has levels 0 to {known - 1}, asked for {list(levels)}")
        if not self.levels:
            raise UserError("a stream of tasks needs at least one family")

    def task(self, index: int) -> Task:
        """The task at `index`."""
        kinds = [(name, level) for name, levels in self.levels.items() for level in levels]
        name, level = kinds[index % len(kinds)]
        seed = seed_of("stream", self.seed, self.split, name, level, index)
        return with_budget(family(name).generate(self.split, level, seed), self.budgets)

    def start(self, cursor: int = 0) -> Iterator[tuple[int, Task]]:
        """(cursor after the task, task) from `cursor` on, without end."""
        while True:
            task, cursor = self.task(cursor), cursor + 1
            yield cursor, task


def with_budget(task: Task, table: Mapping[str, Budget]) -> Task:
    """The task with b₀ of its shape, where the table has one."""
    return replace(task, budget=table[task.shape]) if task.shape in table else task


def task_texts(task: Task) -> list[str]:
    """What must not occur in a corpus: the instruction and the files that the task comes with."""
    return [task.instruction, *task.files.values()]

"""Tasks that wait for others: edges are pairs, the first has to be done before the second."""


def names(edges: list[list[str]]) -> list[str]:
    """Every task of the edges, in alphabetical order."""
    return sorted({name for edge in edges for name in edge})


def before(task: str, edges: list[list[str]]) -> list[str]:
    """What a task waits for itself, in alphabetical order, each once."""
    return sorted({first for first, second in edges if second == task})


def order(edges: list[list[str]]) -> list[str]:
    """All tasks so that none comes before what it waits for, of several that could the first by name; [] where they wait in a
    circle."""
    left, done = names(edges), list[str]()
    for _ in range(len(left)):
        free = [task for task in left if all(first in done for first in before(task, edges))]
        if not free:
            return []
        done.append(free[0])
        left.remove(free[0])
    return done


def layers(edges: list[list[str]]) -> dict[str, int]:
    """Task → how many tasks the longest chain before it has; {} where they wait in a circle."""
    found: dict[str, int] = {}
    for task in order(edges):
        found[task] = max([found[first] + 1 for first in before(task, edges)], default=0)
    return found

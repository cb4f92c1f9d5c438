"""When what can be done: durations are task → hours; a task without one takes 1."""

from .graph import before, order


def starts(durations: dict[str, int], edges: list[list[str]]) -> dict[str, int]:
    """Task → the first hour at which all that it waits for is done."""
    found: dict[str, int] = {}
    for task in order(edges):
        found[task] = max([found[first] + durations.get(first, 1) for first in before(task, edges)], default=0)
    return found


def length(durations: dict[str, int], edges: list[list[str]]) -> int:
    """Hours until everything is done, however many work."""
    begun = starts(durations, edges)
    return max([hour + durations.get(task, 1) for task, hour in begun.items()], default=0)


def slack(durations: dict[str, int], edges: list[list[str]]) -> dict[str, int]:
    """Task → hours that it may start later without anything that waits for it starting later, or the end of all."""
    begun, whole = starts(durations, edges), length(durations, edges)
    found: dict[str, int] = {}
    for task, hour in begun.items():
        next_ = [begun[second] for first, second in edges if first == task]
        found[task] = min([*next_, whole]) - hour - durations.get(task, 1)
    return found

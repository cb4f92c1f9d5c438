"""Plans as text."""

from .critical import length, slack, starts
from .settings import SCALE


def bar(start: int, hours: int) -> str:
    """Dots up to the start, then a hash for every SCALE hours, rounded down, but one at least."""
    return "." * (start // SCALE) + "#" * max(1, hours // SCALE)


def chart(durations: dict[str, int], edges: list[list[str]]) -> list[str]:
    """A line for each task by its start, equal ones by name: name, space and bar; a task without duration takes 1."""
    begun = starts(durations, edges)
    ranked = sorted(begun, key=lambda task: (begun[task], task))
    return [f"{task} {bar(begun[task], durations.get(task, 1))}" for task in ranked]


def summary(durations: dict[str, int], edges: list[list[str]]) -> str:
    """How long it takes, and the tasks without slack in alphabetical order, like "12 h: a c"."""
    tight = sorted(task for task, hours in slack(durations, edges).items() if hours == 0)
    return f"{length(durations, edges)} h: {' '.join(tight)}"

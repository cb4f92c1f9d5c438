"""Programs: assignments with semicolons between, or lines of them."""

from .check import problem
from .evaluate import value
from .tokens import strip


def statements(text: str) -> list[list[str]]:
    """Name and expression of each assignment, comments dropped; what has no equals sign is given to the name `it`."""
    found: list[list[str]] = []
    for line in text.splitlines():
        for part in strip(line).split(";"):
            name, equals, expression = part.partition("=")
            if equals:
                found.append([name.strip(), expression.strip()])
            elif part.strip():
                found.append(["it", part.strip()])
    return found


def run(text: str) -> dict[str, int]:
    """The names and their last values; a statement with a problem leaves its name as it was."""
    names: dict[str, int] = {}
    for name, expression in statements(text):
        if not problem(expression, list(names)):
            names[name] = value(expression, names)
    return names


def complaints(text: str) -> list[str]:
    """A line like "2: unknown: q" for each statement with a problem; statements are counted from 1 on, and a name is known from
    the first statement without a problem that gives it a value."""
    names: list[str] = []
    told: list[str] = []
    for number, (name, expression) in enumerate(statements(text), 1):
        wrong = problem(expression, names)
        if wrong:
            told.append(f"{number}: {wrong}")
        elif name not in names:
            names.append(name)
    return told

"""Values as text."""

from .infix import infix
from .program import complaints, run, statements
from .settings import WIDTH


def dotted(name: str, number: int) -> str:
    """A name and a number with dots between, WIDTH characters in all, but always three dots at least."""
    dots = max(3, WIDTH - len(name) - len(str(number)))
    return name + "." * dots + str(number)


def table(text: str) -> list[str]:
    """A dotted line for each name that a program leaves, in alphabetical order."""
    names = run(text)
    return [dotted(name, names[name]) for name in sorted(names)]


def tidy(text: str) -> list[str]:
    """A program without comments, a statement like "x = 1 + y" a line, each expression in its shortest form."""
    return [f"{name} = {infix(expression)}" for name, expression in statements(text)]


def verdict(text: str) -> str:
    """How a program ends: "2 wrong, first at " and the first complaint, or "it is " and the value of the newest name, or
    "nothing"."""
    wrong = complaints(text)
    if wrong:
        return f"{len(wrong)} wrong, first at {wrong[0]}"
    names = run(text)
    return f"it is {list(names.values())[-1]}" if names else "nothing"

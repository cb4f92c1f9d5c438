"""What is wrong with a text, before it is computed."""

from .settings import DEEPEST
from .tokens import kind, tokenize


def depth(text: str) -> int:
    """The most parentheses that are open at once; -1 where they do not match."""
    now, most = 0, 0
    for token in tokenize(text):
        if kind(token) == "open":
            now += 1
        elif kind(token) == "close":
            now -= 1
        if now < 0:
            return -1
        most = max(most, now)
    return most if now == 0 else -1


def unknown(text: str, names: list[str]) -> list[str]:
    """Names in a text that are not among those known, each once, in order of appearance."""
    found: list[str] = []
    for token in tokenize(text):
        if kind(token) == "name" and token not in names and token not in found:
            found.append(token)
    return found


def problem(text: str, names: list[str]) -> str:
    """The first complaint about a text: parentheses, depth, names, in this order; empty where there is none."""
    deep = depth(text)
    if deep < 0:
        return "parentheses do not match"
    if deep > DEEPEST:
        return f"more than {DEEPEST} parentheses"
    strange = unknown(text, names)
    return f"unknown: {' '.join(strange)}" if strange else ""

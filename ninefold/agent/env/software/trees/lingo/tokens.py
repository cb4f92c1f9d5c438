"""From text to tokens."""

import re


def tokenize(text: str) -> list[str]:
    """Numbers, names, operators and parentheses in order; anything else is dropped."""
    return re.findall(r"\d+|[a-z]+|[-+*/()%]", text)


def strip(line: str) -> str:
    """A line without its comment, which starts with #, and without spaces around."""
    return line.partition("#")[0].strip()


def kind(token: str) -> str:
    """number, name, open, close or operator."""
    if token.isdigit():
        return "number"
    if token.isalpha():
        return "name"
    return {"(": "open", ")": "close"}.get(token, "operator")

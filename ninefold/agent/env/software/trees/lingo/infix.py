"""From postfix order back to text."""

from .postfix import postfix, rank
from .tokens import kind


def infix(text: str) -> str:
    """An expression with the fewest parentheses that leave its order as it is, and a space around each operator."""
    stack: list[list] = []
    for token in postfix(text):
        if kind(token) != "operator":
            stack.append([token, 3])
            continue
        right, left = stack.pop(), stack.pop()
        before = f"({left[0]})" if left[1] < rank(token) else left[0]
        behind = f"({right[0]})" if right[1] <= rank(token) else right[0]
        stack.append([f"{before} {token} {behind}", rank(token)])
    return stack[-1][0] if stack else ""


def shape(text: str) -> str:
    """An expression with n for every number and x for every name, without spaces."""
    words = infix(text).replace("(", "( ").replace(")", " )").split()
    return "".join({"number": "n", "name": "x"}.get(kind(word), word) for word in words)

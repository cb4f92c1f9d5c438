"""From postfix order to a value."""

from .postfix import postfix
from .settings import MODULUS
from .tokens import kind


def apply(operator: str, left: int, right: int) -> int:
    """The result below MODULUS, never negative; a division or remainder by 0 gives 0."""
    if operator == "+":
        value = left + right
    elif operator == "-":
        value = left - right
    elif operator == "*":
        value = left * right
    elif right == 0:
        value = 0
    elif operator == "/":
        value = left // right
    else:
        value = left % right
    return value % MODULUS


def value(text: str, names: dict[str, int]) -> int:
    """Of an expression; a name without value counts as 0."""
    stack: list[int] = []
    for token in postfix(text):
        if kind(token) == "number":
            stack.append(int(token) % MODULUS)
        elif kind(token) == "name":
            stack.append(names.get(token, 0))
        else:
            right = stack.pop()
            stack.append(apply(token, stack.pop(), right))
    return stack[-1] if stack else 0

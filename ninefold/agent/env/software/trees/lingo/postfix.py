"""From tokens to postfix order."""

from .tokens import kind, tokenize

RANKS = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}


def rank(operator: str) -> int:
    """How tightly an operator binds; 0 for what is none."""
    return RANKS.get(operator, 0)


def postfix(text: str) -> list[str]:
    """The tokens of a text with matching parentheses in postfix order; operators of one rank bind from the left."""
    out: list[str] = []
    stack: list[str] = []
    for token in tokenize(text):
        if kind(token) in ("number", "name"):
            out.append(token)
        elif kind(token) == "open":
            stack.append(token)
        else:
            for _ in range(len(stack)):
                if rank(stack[-1]) < max(1, rank(token)):
                    break
                out.append(stack.pop())
            if kind(token) == "close":
                stack.pop()
            else:
                stack.append(token)
    return out + stack[::-1]

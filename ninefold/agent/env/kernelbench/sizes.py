"""Problems for GPUs made fit for one thread of a CPU, by the sizes that stand at the top of their text."""

from __future__ import annotations

import ast
from collections.abc import Iterator

LEAST = 16
"""Smaller numbers stay as they are: widths of windows, strides, most groups and axes are among them."""


def halvings(text: str) -> Iterator[str]:
    """The text as it is, then with its largest sizes halved, again and again, until all are below LEAST.

    A size is a whole number that a module-level assignment gives, by itself or in a tuple; a product of numbers is one.
    Equal sizes are halved together, since what is equal may have to be. The rest of the text stays as it is.
    Raises SyntaxError where it is no Python.
    """
    while True:
        yield text
        found = [(value, node) for value, node in _sizes(ast.parse(text)) if value >= LEAST]
        if not found:
            return
        largest = max(value for value, _ in found)
        text = _replaced(text, [node for value, node in found if value == largest], str(largest // 2))


def _sizes(module: ast.Module) -> Iterator[tuple[int, ast.expr]]:
    for statement in module.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            yield from _within(statement.value)


def _within(node: ast.expr) -> Iterator[tuple[int, ast.expr]]:
    if isinstance(node, ast.Tuple | ast.List):
        for element in node.elts:
            yield from _within(element)
    elif (value := _number(node)) is not None:
        yield value, node


def _number(node: ast.expr) -> int | None:
    """What a number, or a product of numbers, comes to."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _number(node.left), _number(node.right)
        return None if left is None or right is None else left * right
    return None


def _replaced(text: str, nodes: list[ast.expr], by: str) -> str:
    lines = [line.encode() for line in text.splitlines(keepends=True)]
    for node in sorted(nodes, key=lambda n: (n.lineno, n.col_offset), reverse=True):
        assert node.end_lineno is not None
        head, tail = lines[node.lineno - 1][: node.col_offset], lines[node.end_lineno - 1][node.end_col_offset :]
        lines[node.lineno - 1 : node.end_lineno] = [head + by.encode() + tail]
    return b"".join(lines).decode()

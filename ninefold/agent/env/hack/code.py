"""Mutations of Python source: small edits, placed by its syntax tree, that leave the rest as it is written."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

_BINARY: dict[type[ast.operator], tuple[str, tuple[str, ...]]] = {
    ast.Add: ("+", ("-", "*")),
    ast.Sub: ("-", ("+",)),
    ast.Mult: ("*", ("+", "//")),
    ast.FloorDiv: ("//", ("/", "*")),
    ast.Div: ("/", ("//", "*")),
    ast.Mod: ("%", ("//", "*")),
    ast.Pow: ("**", ("*",)),
}
_COMPARISONS: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">")),
    ast.LtE: ("<=", ("<", ">=")),
    ast.Gt: (">", (">=", "<")),
    ast.GtE: (">=", (">", "<=")),
    ast.Eq: ("==", ("!=", ">=")),
    ast.NotEq: ("!=", ("==",)),
    ast.In: ("in", ("not in",)),
}
_DROPPED = (ast.Assign, ast.AugAssign, ast.Expr, ast.If, ast.For, ast.Delete)


class Edit(NamedTuple):
    """Replace bytes of a source."""

    start: int
    end: int
    text: str
    what: str
    """For people."""


def is_program(text: str) -> bool:
    """Whether a text is Python that computes something, not merely a word that parses."""
    tree = _parsed(text)
    kinds = (ast.BinOp, ast.Call, ast.FunctionDef, ast.Assign, ast.Compare)
    return tree is not None and any(isinstance(node, kinds) for node in ast.walk(tree))


def functions(source: str) -> list[str]:
    """Names of the functions that a program defines at its top level."""
    tree = _parsed(source)
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef)] if tree else []


def mutations(source: str) -> list[tuple[str, str]]:
    """(what was done, the mutated source) of every single edit that still parses."""
    made: dict[str, str] = {}
    for edit in edits(source):
        text = edited(source, edit)
        if text is not None:
            made.setdefault(text, edit.what)
    return [(what, text) for text, what in made.items()]


def edited(source: str, edit: Edit) -> str | None:
    """The source with one edit made; None where it then says the same, or nothing that parses."""
    raw = source.encode()
    text = (raw[: edit.start] + edit.text.encode() + raw[edit.end :]).decode()
    return text if text != source and _parsed(text) is not None else None


def edits(source: str) -> Iterator[Edit]:
    """Every edit that this module knows, in the order of the tree."""
    tree = _parsed(source)
    if tree is None:
        return
    places = _Places(source)
    names = sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | _arguments(tree))
    for node in _walk(tree):
        if isinstance(node, ast.expr):
            yield from _of_expression(node, places, names)
        elif isinstance(node, ast.stmt):
            yield from _of_statement(node, places)


def _of_expression(node: ast.expr, places: _Places, names: list[str]) -> Iterator[Edit]:
    match node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            yield from places.between(left, right, *_BINARY[type(op)])
        case ast.Compare(left=left, ops=[op, *_], comparators=[right, *_]) if type(op) in _COMPARISONS:
            yield from places.between(left, right, *_COMPARISONS[type(op)])
        case ast.BoolOp(op=op, values=[left, right, *_]):
            yield from places.between(left, right, *(("and", ("or",)) if isinstance(op, ast.And) else ("or", ("and",))))
        case ast.UnaryOp(operand=operand):
            yield places.replace(node, places.text(operand), "sign or negation dropped")
        case ast.Constant(value=bool() as value):
            yield places.replace(node, str(not value), "constant")
        case ast.Constant(value=int() as value):
            for other in {value + 1, value - 1, 0} - {value}:
                yield places.replace(node, str(other) if other >= 0 else f"({other})", "constant")
        case ast.Constant(value=str() as value) if value:
            yield places.replace(node, repr(value[:-1]), "constant")
        case ast.IfExp(test=test):
            yield places.replace(test, f"not ({places.text(test)})", "condition")
        case ast.Subscript(slice=ast.Name() as index):
            yield places.replace(index, f"{index.id} + 1", "off by one")
        case ast.Call(func=ast.Name(id="range"), args=[*_, last]):
            yield places.replace(last, f"({places.text(last)}) - 1", "off by one")
        case ast.Call(args=[first, second, *_]):
            yield places.replace(first, places.text(second), "argument")
            yield places.replace(second, places.text(first), "argument")
        case ast.Name(ctx=ast.Load()):
            for name in names:
                yield places.replace(node, name, "variable")
        case _:
            pass


def _of_statement(node: ast.stmt, places: _Places) -> Iterator[Edit]:
    if isinstance(node, _DROPPED):
        yield places.replace(node, "pass", "statement dropped")
    if isinstance(node, ast.If):
        yield places.replace(node.test, f"not ({places.text(node.test)})", "condition")
    if isinstance(node, ast.AugAssign) and type(node.op) in _BINARY:
        symbol, others = _BINARY[type(node.op)]
        yield from places.between(node.target, node.value, symbol + "=", (*(other + "=" for other in others), "="))
    if isinstance(node, ast.Return) and node.value is not None:
        yield places.replace(node.value, "None", "result")


class _Places:
    """Where nodes stand in a source, in bytes."""

    def __init__(self, source: str) -> None:
        self._raw = source.encode()
        self._lines = [0]
        for line in self._raw.split(b"\n"):
            self._lines.append(self._lines[-1] + len(line) + 1)

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._lines[node.lineno - 1] + node.col_offset, self._lines[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self.span(node)
        return self._raw[start:end].decode()

    def replace(self, node: ast.expr | ast.stmt, text: str, what: str) -> Edit:
        return Edit(*self.span(node), text, f"{what}: {self.text(node)[:40]} → {text[:40]}")

    def between(self, left: ast.expr, right: ast.expr, symbol: str, others: tuple[str, ...]) -> Iterator[Edit]:
        """Other operators in place of the one between two operands."""
        (_, start), (end, _) = self.span(left), self.span(right)
        place = start + self._raw[start:end].decode().find(symbol)
        for other in others if place >= start else ():
            yield Edit(place, place + len(symbol), other, f"operator: {symbol} → {other}")


def _walk(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those inside f-strings and annotations, whose places are no guide."""
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, ast.JoinedStr | ast.arguments):
            yield child
            yield from _walk(child)


def _arguments(tree: ast.AST) -> set[str]:
    return {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}


def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None

"""Formulas of a workbook, compiled once and computed anew for other inputs.

Of our own because a verifier needs it bounded and fast: `formulas` brings scipy and takes forty times as long for a workbook of
200 formulas, `pycel` evaluates formulas as Python. The tokens are openpyxl's.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from openpyxl.formula import Tokenizer
from openpyxl.formula.tokenizer import Token, TokenizerError
from openpyxl.utils import column_index_from_string

from ninefold.agent.env.professional.functions import FUNCTIONS, compare
from ninefold.agent.env.professional.values import Array, Fault, Scalar, Value, grid, items, joined, number, single, truth

_LONGEST = 2_000
"""Characters of a formula."""
_MOST_TOKENS = 300
"""So that no computation is deeper than the stack."""
_DEEPEST = 40
"""Brackets within brackets."""

Area = tuple[str, int, int, int, int]
"""Sheet, then first row and column, last row and column, from 1; a last one of 0 goes to the end of what the sheet holds."""


class Reader(Protocol):
    """Where formulas get the values of other cells."""

    def area(self, area: Area) -> Array: ...


Term = Callable[[Reader], Value]
"""A part of a formula: its value, given the cells. Raises Fault where it has none."""

_RANKS: Mapping[str, int] = {
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), 1),
    "&": 2,
    **dict.fromkeys("+-", 3),
    **dict.fromkeys("*/", 4),
    "^": 5,
}
_PLAIN: Mapping[str, Callable[[float, float], float]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}


@dataclass(slots=True)
class _Parser:
    """Precedence climbing over one formula's tokens."""

    tokens: Sequence[Token]
    sheet: str
    names: Mapping[str, Area]
    place: int = 0
    depth: int = 0

    def formula(self) -> Term:
        term = self.binary(1)
        if self.place < len(self.tokens):
            raise Fault("#NAME?")
        return term

    def binary(self, rank: int) -> Term:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise Fault("#NAME?")
        left = self.unary()
        while (token := self.next()) and token.type == Token.OP_IN and _RANKS.get(token.value, 0) >= rank:
            self.place += 1
            left = _operation(token.value, left, self.binary(_RANKS[token.value] + 1))
        self.depth -= 1
        return left

    def unary(self) -> Term:
        signs = 0
        while (token := self.next()) and token.type == Token.OP_PRE:
            self.place += 1
            signs += token.value == "-"
        term = self.operand()
        while (token := self.next()) and token.type == Token.OP_POST:
            self.place += 1
            term = _operation("*", term, lambda _: 0.01)
        return _operation("*", term, lambda _: -1.0) if signs % 2 else term

    def operand(self) -> Term:
        token = self.next()
        if token is None:
            raise Fault("#NAME?")
        self.place += 1
        if token.type == Token.PAREN and token.subtype == Token.OPEN:
            term = self.binary(1)
            self.close()
            return term
        if token.type == Token.FUNC and token.subtype == Token.OPEN:
            return _call(token.value.removesuffix("(").upper().removeprefix("_XLFN."), self.arguments())
        if token.type == Token.OPERAND:
            return self.literal(token)
        raise Fault("#NAME?")

    def arguments(self) -> list[Term]:
        found: list[Term] = []
        if (token := self.next()) and token.subtype == Token.CLOSE:
            self.place += 1
            return found
        while True:
            token = self.next()
            found.append((lambda _: None) if token and token.type == Token.SEP else self.binary(1))
            token = self.next()
            if token is None or token.type != Token.SEP:
                self.close()
                return found
            self.place += 1

    def literal(self, token: Token) -> Term:
        value: Scalar
        match token.subtype:
            case Token.NUMBER:
                value = float(token.value)
            case Token.TEXT:
                value = token.value[1:-1].replace('""', '"')
            case Token.LOGICAL:
                value = token.value.upper() == "TRUE"
            case Token.RANGE:
                area = area_of(token.value, self.sheet, self.names)
                return lambda reader: reader.area(area)
            case _:
                raise Fault(token.value)
        return lambda _: value

    def next(self) -> Token | None:
        return self.tokens[self.place] if self.place < len(self.tokens) else None

    def close(self) -> None:
        token = self.next()
        if token is None or token.subtype != Token.CLOSE:
            raise Fault("#NAME?")
        self.place += 1


def compiled(formula: str, sheet: str, names: Mapping[str, Area]) -> Term:
    """A formula such as `=SUM(A1:A3)` of a sheet; `names` are the workbook's. Raises Fault where it means nothing here."""
    if len(formula) > _LONGEST:
        raise Fault("#NAME?")
    try:
        tokens = [token for token in Tokenizer(formula).items if token.type != Token.WSPACE]
    except (TokenizerError, IndexError):
        raise Fault("#NAME?") from None
    if len(tokens) > _MOST_TOKENS:
        raise Fault("#NUM!")
    return _Parser(tokens, sheet, names).formula()


_AREA = re.compile(
    r"(?:(?P<sheet>'(?:[^']|'')+'|[^'!\[\]:]+)!)?\$?(?P<c1>[A-Z]{1,3})?\$?(?P<r1>\d{1,7})?"
    r"(?::\$?(?P<c2>[A-Z]{1,3})?\$?(?P<r2>\d{1,7})?)?",
    re.IGNORECASE,
)


def area_of(reference: str, sheet: str, names: Mapping[str, Area]) -> Area:
    """What a reference such as `B2`, `$A$1:C9`, `A:A`, `'My sheet'!B2` or a defined name stands for. Raises Fault."""
    if reference.upper() in names:
        return names[reference.upper()]
    found = _AREA.fullmatch(reference)
    whole = found is not None and ":" in reference.rpartition("!")[2]
    if found is None or not (whole or (found["c1"] and found["r1"])):
        raise Fault("#NAME?")
    if whole and (bool(found["c1"]) != bool(found["c2"]) or bool(found["r1"]) != bool(found["r2"])):
        raise Fault("#NAME?")
    named = found["sheet"]
    if named:
        sheet = named[1:-1].replace("''", "'") if named.startswith("'") else named
    columns = [column_index_from_string(c.upper()) if c else 0 for c in (found["c1"], found["c2"])]
    rows = [int(r) if r else 0 for r in (found["r1"], found["r2"])]
    if not whole:
        return sheet, rows[0], columns[0], rows[0], columns[0]
    return sheet, max(1, min(rows)), max(1, min(columns)), max(rows), max(columns)


def _operation(symbol: str, left: Term, right: Term) -> Term:
    return lambda reader: _spread(lambda a, b: _scalar(symbol, a, b), left(reader), right(reader))


def _spread(act: Callable[[Scalar, Scalar], Scalar], left: Value, right: Value) -> Value:
    """Item by item, where one side or both are arrays; a single row or column goes with each of the other's."""
    if not isinstance(left, list) and not isinstance(right, list):
        return act(left, right)
    a, b = grid(left), grid(right)
    height, width = max(len(a), len(b)), max(len(a[0]), len(b[0]))
    if any(len(x) not in (1, height) or len(x[0]) not in (1, width) for x in (a, b)):
        raise Fault("#VALUE!")

    def at(x: Array, row: int, column: int) -> Scalar:
        return x[row if len(x) > 1 else 0][column if len(x[0]) > 1 else 0]

    return [[act(at(a, row, column), at(b, row, column)) for column in range(width)] for row in range(height)]


def _scalar(symbol: str, left: Scalar, right: Scalar) -> Scalar:
    if symbol == "&":
        return joined(left, right)
    if symbol in _PLAIN:
        return _PLAIN[symbol](number(left), number(right))
    if symbol == "/":
        if not number(right):
            raise Fault("#DIV/0!")
        return number(left) / number(right)
    if symbol == "^":
        found = FUNCTIONS["POWER"](left, right)
        return single(found)
    return compare(symbol, left, right)


def _call(name: str, arguments: list[Term]) -> Term:
    lazy = _LAZY.get(name)
    if lazy is not None:
        return lambda reader: lazy(reader, arguments)
    function = FUNCTIONS.get(name)
    if function is None:
        raise Fault("#NAME?")

    def call(reader: Reader) -> Value:
        values = [argument(reader) for argument in arguments]
        try:
            return function(*values)
        except TypeError:  # too few or too many arguments
            raise Fault("#VALUE!") from None
        except (ArithmeticError, ValueError):
            raise Fault("#NUM!") from None

    return call


def _if(reader: Reader, arguments: list[Term]) -> Value:
    if not 2 <= len(arguments) <= 3:
        raise Fault("#VALUE!")
    if truth(arguments[0](reader)):
        return arguments[1](reader)
    return arguments[2](reader) if len(arguments) == 3 else False


def _if_error(reader: Reader, arguments: list[Term]) -> Value:
    if len(arguments) != 2:
        raise Fault("#VALUE!")
    try:
        return arguments[0](reader)
    except Fault:
        return arguments[1](reader)


def _choose(reader: Reader, arguments: list[Term]) -> Value:
    at = int(number(arguments[0](reader))) if arguments else 0
    if not 1 <= at < len(arguments):
        raise Fault("#VALUE!")
    return arguments[at](reader)


def _conditions(reader: Reader, arguments: list[Term]) -> list[bool]:
    return [truth(x) for argument in arguments for x in items(argument(reader)) if x is not None]


_LAZY: Mapping[str, Callable[[Reader, list[Term]], Value]] = {
    "IF": _if,
    "IFERROR": _if_error,
    "CHOOSE": _choose,
    "AND": lambda reader, arguments: all(_conditions(reader, arguments)),
    "OR": lambda reader, arguments: any(_conditions(reader, arguments)),
}
"""Functions that do not look at every argument, or at faults."""

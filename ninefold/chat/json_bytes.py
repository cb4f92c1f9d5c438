"""Which bytes may come next in a JSON text: a pushdown automaton whose states are hashable.

It writes what every JSON reader can hold: bounded depth and digits, no escaped surrogates, at most one space after `,` and `:`.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_DEPTH = 16
MAX_DIGITS = 15
MAX_EXPONENT = 2

_DIGITS = frozenset(b"0123456789")
_HEX = frozenset(b"0123456789abcdefABCDEF")
_LITERALS = {ord("t"): b"rue", ord("f"): b"alse", ord("n"): b"ull"}
_STARTS: dict[str, frozenset[int]] = {
    "string": frozenset(b'"'),
    "number": frozenset(b"-0123456789"),
    "integer": frozenset(b"-0123456789"),
    "boolean": frozenset(b"tf"),
    "null": frozenset(b"n"),
    "object": frozenset(b"{"),
    "array": frozenset(b"["),
    "value": frozenset(b'"-0123456789tfn{['),
}


class Expect(NamedTuple):
    """One thing that is still to come."""

    what: str
    written: int = 0
    """Digits so far."""
    rest: bytes = b""
    """What is left of a literal."""
    whole: bool = False
    """Numbers: no fraction and no exponent."""


State = tuple[Expect, ...]
"""Innermost last; () is a complete text."""


def start(kind: str) -> State:
    """A text of one JSON Schema type, or of any for "value"."""
    return (Expect(kind),)


def complete(state: State) -> bool:
    """Whether the text may end here."""
    return not state or (len(state) == 1 and state[0].what in ("zero", "digits", "fraction", "exponent"))


def step(state: State, byte: int) -> State | None:
    """The state after one more byte; None where it cannot follow."""
    if not state:
        return None
    rest, top = state[:-1], state[-1]
    what = top.what
    if what in _STARTS:
        return _begin(rest, what, byte) if byte in _STARTS[what] else None
    if what == "text" or what == "escape" or what == "hex" or what == "hex after d":
        return _string(rest, top, byte)
    if what == "literal":
        if byte != top.rest[0]:
            return None
        return (*rest, top._replace(rest=top.rest[1:])) if len(top.rest) > 1 else rest
    if what in _STRUCTURE or what in ("first item", "spaced value"):
        return _structure(rest, what, byte)
    return _number(rest, top, byte)


def advance(state: State, data: bytes) -> State | None:
    """The state after `data`."""
    current: State | None = state
    for byte in data:
        current = step(current, byte)
        if current is None:
            return None
    return current


def _begin(rest: State, kind: str, byte: int) -> State | None:
    if byte == ord('"'):
        return (*rest, Expect("text"))
    if byte in b"{[":
        if len(rest) >= MAX_DEPTH:
            return None
        return (*rest, Expect("first key" if byte == ord("{") else "first item"))
    if byte in _LITERALS:
        return (*rest, Expect("literal", rest=_LITERALS[byte]))
    whole = kind == "integer"
    if byte == ord("-"):
        return (*rest, Expect("minus", whole=whole))
    return (*rest, Expect("zero" if byte == ord("0") else "digits", written=1, whole=whole))


def _string(rest: State, top: Expect, byte: int) -> State | None:
    if top.what == "text":
        if byte == ord('"'):
            return rest
        if byte == ord("\\"):
            return (*rest, Expect("escape"))
        return (*rest, top) if byte >= 0x20 else None
    if top.what == "escape":
        if byte == ord("u"):
            return (*rest, Expect("hex"))
        return (*rest, Expect("text")) if byte in b'"\\/bfnrt' else None
    if byte not in _HEX or (top.what == "hex after d" and byte not in b"01234567"):
        return None
    if top.written == 0 and byte in b"dD":
        return (*rest, Expect("hex after d", written=1))
    return (*rest, Expect("hex", written=top.written + 1) if top.written < 3 else Expect("text"))


_STRUCTURE: dict[str, dict[int, State]] = {
    "first key": {ord('"'): (Expect("colon"), Expect("text")), ord("}"): ()},
    "key": {ord('"'): (Expect("colon"), Expect("text"))},
    "spaced key": {ord('"'): (Expect("colon"), Expect("text")), ord(" "): (Expect("key"),)},
    "colon": {ord(":"): (Expect("next pair"), Expect("spaced value"))},
    "next pair": {ord(","): (Expect("spaced key"),), ord("}"): ()},
    "next item": {ord(","): (Expect("next item"), Expect("spaced value")), ord("]"): ()},
}


def _structure(rest: State, what: str, byte: int) -> State | None:
    if what == "first item":
        return rest if byte == ord("]") else step((*rest, Expect("next item"), Expect("value")), byte)
    if what == "spaced value":
        return (*rest, Expect("value")) if byte == ord(" ") else step((*rest, Expect("value")), byte)
    follow = _STRUCTURE[what].get(byte)
    return None if follow is None else rest + follow


def _number(rest: State, top: Expect, byte: int) -> State | None:
    what = top.what
    if byte in _DIGITS:
        return _digit(rest, top, byte)
    if what == "before exponent" and byte in b"+-":
        return (*rest, Expect("exponent sign"))
    if not top.whole and what in ("zero", "digits") and byte == ord("."):
        return (*rest, Expect("point"))
    if not top.whole and what in ("zero", "digits", "fraction") and byte in b"eE":
        return (*rest, Expect("before exponent"))
    if what in ("zero", "digits", "fraction", "exponent"):
        return step(rest, byte)
    return None


def _digit(rest: State, top: Expect, byte: int) -> State | None:
    what, written = top.what, top.written
    if what == "minus":
        return (*rest, Expect("zero" if byte == ord("0") else "digits", written=1, whole=top.whole))
    if what == "zero":
        return None
    if written < (MAX_EXPONENT if what == "exponent" else MAX_DIGITS) and what in ("digits", "fraction", "exponent"):
        return (*rest, top._replace(written=written + 1))
    following = {"point": "fraction", "before exponent": "exponent", "exponent sign": "exponent"}.get(what)
    return None if following is None else (*rest, Expect(following, written=1))

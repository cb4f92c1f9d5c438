"""The mutation agent: takes what gold does and makes it wrong where it still looks right.

Programs are edited by their syntax tree, answers take near values, calls are dropped, doubled, swapped or sent elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random

from ninefold.agent.env.hack.code import edited, edits, is_program
from ninefold.core.protocols import Move
from ninefold.core.types import Call

Moves = tuple[Move, ...]
Mutant = tuple[str, Moves]
"""What was done, and the moves that came of it."""

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_WORD = re.compile(r"[A-Za-z]{2,}")
_EACH = 6
"""Most near values of one kind for one text."""
_EDITS = 300
"""Most edits of one program that are tried."""
_MOVES = 20
"""Most moves of one solution that are changed, drawn at random."""


def mutants(gold: Moves, others: Sequence[Moves], rng: Random, *, programs: bool) -> list[Mutant]:
    """Every mutant of `gold` that this agent knows, each once, in random order.

    `others` is what gold does in other tasks, whose words and answers look right here; `programs` says that texts which are
    Python shall be mutated as such.
    """
    made: dict[str, Mutant] = {}
    for what, moves in _all(gold, others, rng, programs):
        if moves != gold:
            made.setdefault(repr(moves), (what, moves))
    found = list(made.values())
    rng.shuffle(found)
    return found


def _all(gold: Moves, others: Sequence[Moves], rng: Random, programs: bool) -> Iterator[Mutant]:
    words = sorted({word for moves in (gold, *others) for text in _texts(moves) for word in _WORD.findall(text)})
    numbers = range(len(gold)) if len(gold) <= _MOVES else sorted(rng.sample(range(len(gold)), _MOVES))
    for number in numbers:
        for what, changed in _of_move(gold[number], words, rng, programs):
            yield what, (*gold[:number], changed, *gold[number + 1 :])
    yield from _of_order(gold, numbers)
    for moves in others:
        yield "another task's solution", moves
        response = moves[-1].response
        yield "another task's answer", (*gold[:-1], replace(gold[-1], response=response))
        yield "hedged answer", (*gold[:-1], replace(gold[-1], response=f"{gold[-1].response} or {response}"))


def _of_order(gold: Moves, numbers: Sequence[int]) -> Iterator[Mutant]:
    """Moves with calls left out, made twice, or in another order; those of these numbers."""
    calling = [number for number in numbers if gold[number].calls]
    for number in calling:
        yield f"call {number + 1} dropped", gold[:number] + gold[number + 1 :]
        yield f"call {number + 1} doubled", gold[: number + 1] + gold[number:]
    for first, second in pairwise(calling):
        swapped = list(gold)
        swapped[first], swapped[second] = gold[second], gold[first]
        yield f"calls {first + 1} and {second + 1} swapped", tuple(swapped)
    if calling:
        yield "all calls dropped", tuple(move for move in gold if not move.calls)
        yield "answer withheld", (*gold[:-1], replace(gold[-1], response=None))


def _of_move(move: Move, words: Sequence[str], rng: Random, programs: bool) -> Iterator[tuple[str, Move]]:
    """The move with one text of it changed."""
    if move.response:
        for what, text in _near(move.response, words, rng, programs):
            yield f"answer: {what}", replace(move, response=text)
    for number, call in enumerate(move.calls):
        for name, value in call.arguments.items():
            for what, text in _near(value, words, rng, programs) if isinstance(value, str) else ():
                changed = Call(tool=call.tool, arguments={**call.arguments, name: text})
                calls = (*move.calls[:number], changed, *move.calls[number + 1 :])
                yield f"{call.tool}, {name}: {what}", replace(move, calls=calls)


def _near(text: str, words: Sequence[str], rng: Random, programs: bool) -> Iterator[tuple[str, str]]:
    """Texts that look like this one and say something else."""
    if programs and is_program(text):
        found = list(edits(text))
        for edit in found if len(found) <= _EDITS else rng.sample(found, _EDITS):
            changed = edited(text, edit)
            if changed is not None:
                yield edit.what, changed
        return
    numbers = list(_NUMBER.finditer(text))
    for found in rng.sample(numbers, min(_EACH, len(numbers))):
        for what, number in _near_numbers(found[0]):
            yield what, text[: found.start()] + number + text[found.end() :]
    spoken = list(_WORD.finditer(text))
    for found in rng.sample(spoken, min(_EACH, len(spoken))):
        word = rng.choice(words)
        yield f"word: {found[0]} → {word}", text[: found.start()] + word + text[found.end() :]
    tokens = text.split(" ")
    if len(tokens) > 1:
        place = rng.randrange(len(tokens))
        yield f"word dropped: {tokens[place]}", " ".join(tokens[:place] + tokens[place + 1 :])
        yield "cut in half", " ".join(tokens[: len(tokens) // 2])
    yield "said twice", f"{text} {text}"


def _near_numbers(number: str) -> Iterator[tuple[str, str]]:
    whole, point, decimals = number.partition(".")
    for step in (1, -1):
        yield f"number: {number} {step:+}", str(int(whole) + step) + point + decimals
    yield f"number: {number} times ten", whole + "0" + point + decimals
    if float(number):
        yield f"number: {number} negated", number[1:] if number.startswith("-") else f"-{number}"
    if point:
        yield f"number: {number} cut", whole
    digits = whole.removeprefix("-")
    if len(digits) > 1 and digits[0] != digits[-1] != "0":
        yield f"number: {number} turned round", whole.replace(digits, digits[-1] + digits[1:-1] + digits[0]) + point + decimals


def _texts(moves: Moves) -> Iterator[str]:
    for move in moves:
        if move.response:
            yield move.response
        for call in move.calls:
            yield from (value for value in call.arguments.values() if isinstance(value, str))

"""Generated worksheets: the primitives that a small model must own before tasks teach it anything.

Copying, recall of a pair by its key, running sums and arithmetic expressions, each drawn from content that no task uses
(split `corpus`). Short items fill a page, so that one document repeats one or several skills in context. [ours]
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from ninefold.agent.env.names import GOODS, NAMES, PLACES
from ninefold.core.config import Config
from ninefold.core.seeds import rng_of, split_of

THINGS = GOODS + PLACES
RELATIONS = ((" likes ", "What does ", " like?"), (" is in ", "Where is ", " now?"), (" has ", "What does ", " have?"))
DIGITS = tuple("0123456789")


class Skills(Config):
    """Relative frequency of each kind of item."""

    repeat: float = 0.14
    copy_words: float = 0.10
    recall: float = 0.04
    sums: float = 0.32
    additions: float = 0.10
    expressions: float = 0.30


def page(skills: Skills, characters: int, *names: object) -> str:
    """A worksheet of at least `characters` characters, fixed by `names`."""
    rng = rng_of("skills", *names)
    kinds = list(skills.model_dump().items())
    items: list[str] = []
    size = 0
    while size < characters:
        kind = rng.choices([k for k, _ in kinds], [w for _, w in kinds])[0]
        items.append(ITEMS[kind](rng))
        size += len(items[-1])
    return "".join(items)


def phrases() -> list[str]:
    """Fixed phrases of the items."""
    words = [*NAMES, *THINGS, "copy ", "sum ", "add ", "expr ", "val ", "Q: ", "A: ", ". ", " no", "unknown"]
    return words + [part for relation in RELATIONS for part in relation]


def running_sums(digits: Sequence[int]) -> str:
    """Each digit with the sum modulo 10 that it leads to: `4=7,5=2`."""
    sums = [sum(digits[: i + 1]) % 10 for i in range(len(digits))]
    return ",".join(f"{digit}={after}" for digit, after in zip(digits[1:], sums[1:]))


def written_sums(digits: Sequence[int]) -> str:
    """Every step written out: `3+4=7,7+5=2`."""
    steps: list[str] = []
    total = digits[0]
    for digit in digits[1:]:
        steps.append(f"{total}+{digit}={(total + digit) % 10}")
        total = (total + digit) % 10
    return ",".join(steps)


def _repeat(rng: random.Random) -> str:
    pool = [*NAMES, *THINGS, *DIGITS] if rng.random() < 0.5 else list(rng.choice([NAMES, THINGS, DIGITS]))
    text = ",".join(rng.choice(pool) for _ in range(rng.randint(3, 10)))
    return f"{text};{text};{text}.\n"


def _copy_words(rng: random.Random) -> str:
    pool = rng.choices([(*NAMES, *THINGS), DIGITS, NAMES], [0.6, 0.2, 0.2])[0]
    text = " ".join(rng.choice(pool) for _ in range(rng.randint(2, 6)))
    return f"copy {text};{text}.\n"


def _recall(rng: random.Random) -> str:
    count = rng.randint(2, 6)
    keys, values = rng.sample(NAMES, count), rng.sample(THINGS, count)
    relation, before, after = rng.choice(RELATIONS)
    text = "".join(f"{key}{relation}{value}. " for key, value in zip(keys, values)) + "\n"
    for i in rng.sample(range(count), count):
        kind = rng.choices(["state", "absent", "ask"], [0.55, 0.07, 0.38])[0]
        if kind == "state":
            text += f"Q: {keys[i]}{relation}{values[i]}. "
        elif kind == "absent":
            text += f"Q: {before}{rng.choice([n for n in NAMES if n not in keys])}{after}A: unknown. "
        else:
            text += f"Q: {before}{keys[i]}{after}A: {values[i]}. "
    return text + "\n"


def _sums(rng: random.Random) -> str:
    while True:
        digits = [rng.randint(0, 9) for _ in range(rng.randint(2, 6))]
        if len(digits) < 3 or split_of("+".join(map(str, digits))) == "corpus":
            break
    work = written_sums(digits) if rng.random() < 0.4 else running_sums(digits)
    return f"sum {'+'.join(map(str, digits))};{work}.\n"


def _additions(rng: random.Random) -> str:
    pairs = [(rng.randint(0, 9), rng.randint(0, 9)) for _ in range(3)]
    return "".join(f"add {a}+{b}={(a + b) % 10};" for a, b in pairs) + "\n"


def _expressions(rng: random.Random) -> str:
    """Values of expressions, and expressions for a wanted value that stands some way back, alone or with another one."""
    expression, value = _expression(rng)
    if rng.random() < 0.25:
        return f"val {expression};{value}.\n"
    between = "".join(f"{rng.choice(NAMES)};" for _ in range(rng.choice([0, 0, 1, 2, 4, 8])))
    if rng.random() < 0.5:
        return f"expr {value};{between}{expression}.\n"
    wanted = [str(value), str(_expression(rng)[1])]
    rng.shuffle(wanted)
    return f"expr {','.join(wanted)};{value};{between}{expression}.\n"


def _expression(rng: random.Random) -> tuple[str, int]:
    """`a*b+c` or `a*b-c`, and its value from 10 to 30."""
    while True:
        a, b, c, sign = rng.randint(2, 5), rng.randint(2, 5), rng.randint(0, 9), rng.choice("+-")
        value = a * b + c if sign == "+" else a * b - c
        if 10 <= value <= 30:
            return f"{a}*{b}{sign}{c}", value


ITEMS: dict[str, Callable[[random.Random], str]] = {
    "repeat": _repeat,
    "copy_words": _copy_words,
    "recall": _recall,
    "sums": _sums,
    "additions": _additions,
    "expressions": _expressions,
}

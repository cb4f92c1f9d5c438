"""The log of a file server, some lines of which cannot have happened."""

from __future__ import annotations

from random import Random

from ninefold.agent.env.aet.page import Page, Records
from ninefold.agent.env.names import NAMES

_RULES = (
    "Audit the logs , each of which starts with nobody there : time never goes back ; whoever acts has logged in and "
    "not out since ; a file is open to one user at a time , and only that one reads , writes and closes it ; nobody logs out "
    "with a file open , or in twice . A wrong line has had no effect on those behind it ."
)
_FILES = ("plan", "bill", "note", "list")


def log(rng: Random) -> Records:
    """Eight files of forty lines."""
    return Records(rules=_RULES, pages=tuple(_page(rng, number) for number in range(8)))


def _page(rng: Random, number: int) -> Page:
    users = rng.sample(NAMES, 4)
    inside: set[str] = set()
    opened: dict[str, str] = {}
    clock, lines = rng.randint(100, 200), list[str]()
    ids, wrong = [f"e{number}{line:02}" for line in range(40)], list[str]()
    bad = {line for line in range(6, 40) if rng.random() < 0.045}
    for line, id in enumerate(ids):
        stamp = clock = clock + rng.randint(0, 4)
        right = _possible(users, inside, opened)
        if line in bad and rng.random() < 0.2:
            act, stamp = rng.choice(right), clock - rng.randint(5, 30)
        elif line in bad:
            act = rng.choice([act for act in _all(users) if act not in right])
        else:
            act = rng.choice(right)
            _happen(act, inside, opened)
        wrong += [id] if line in bad else []
        lines.append(f"{id} {stamp} {' '.join(act)}")
    return Page(name=f"logs/{number}.log", text="\n".join(lines) + "\n", ids=tuple(ids), wrong=tuple(wrong))


Act = tuple[str, ...]
"""Who, what, and the file."""


def _all(users: list[str]) -> list[Act]:
    doors = [(user, act) for user in users for act in ("login", "logout")]
    return [*doors, *((user, act, file) for user in users for act in ("open", "read", "write", "close") for file in _FILES)]


def _possible(users: list[str], inside: set[str], opened: dict[str, str]) -> list[Act]:
    """Every act that the rules allow now."""
    return [act for act in _all(users) if _allowed(act, inside, opened)]


def _allowed(act: Act, inside: set[str], opened: dict[str, str]) -> bool:
    match act:
        case (user, "login"):
            return user not in inside
        case (user, "logout"):
            return user in inside and user not in opened.values()
        case (user, "open", file):
            return user in inside and file not in opened
        case (user, _, file):
            return user in inside and opened.get(file) == user
        case _:
            return False


def _happen(act: Act, inside: set[str], opened: dict[str, str]) -> None:
    match act:
        case (user, "login"):
            inside.add(user)
        case (user, "logout"):
            inside.remove(user)
        case (user, "open", file):
            opened[file] = user
        case (_, "close", file):
            del opened[file]
        case _:
            pass
